"""A client that was closed leaves nothing behind, and one that was not does no harm."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from installed import environment
from standin_server import StandinServer
from trireme_client import AsyncClient, Client

pytestmark = pytest.mark.system


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_closed_clients_leave_no_threads_and_no_open_files(server: StandinServer, protocol: str) -> None:
    def use() -> None:
        with Client(server.url(protocol)) as client:
            client.embed(["text"] * 40)

    use()
    files, threads = open_files(), threading.active_count()
    for _ in range(5):
        use()
    deadline = time.monotonic() + 20
    while (open_files() > files or threading.active_count() > threads) and time.monotonic() < deadline:
        time.sleep(0.05)  # gRPC closes its sockets a little later, on threads of its own
    assert open_files() <= files
    assert threading.active_count() <= threads  # fewer if one of an earlier test has ended


def test_a_closed_client_says_so(server: StandinServer, protocol: str) -> None:
    client = Client(server.url(protocol))
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.embed(["text"])


async def _embed_after_closing(url: str) -> None:
    async with AsyncClient(url) as client:
        await client.embed(["text"])
    await client.embed(["text"])


def test_a_closed_async_client_says_so(server: StandinServer, protocol: str) -> None:
    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(_embed_after_closing(server.url(protocol)))


def test_threads_may_share_a_client(server: StandinServer, protocol: str) -> None:
    answers: dict[int, list[str]] = {}

    def use(number: int) -> None:
        texts = ["attack" if (number + index) % 2 else "good" for index in range(20)]
        answers[number] = [answer.label for answer in client.classify(texts)]

    with Client(server.url(protocol), concurrency=3) as client:
        threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {
        number: ["unsafe" if (number + index) % 2 else "safe" for index in range(20)] for number in range(6)
    }


def test_a_program_that_forgets_to_close_its_client_ends_well(
    server: StandinServer, protocol: str, tmp_path: Path
) -> None:
    script = f"from trireme_client import Client; print(len(Client({server.url(protocol)!r}).embed(['a'] * 40)))"
    env = environment(tmp_path)
    result = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, check=False, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"40\n", b"")
