"""The real models survive what happens to their processes, and `trireme serve` tells the truth meanwhile."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from geventhttpclient.response import HTTPConnectionClosed
from served import Refused, Serving, over_http, serve

pytestmark = pytest.mark.system

BACK_WITHIN_S = 5 + 25  # what the product promises, and the model's own load time on a busy machine


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Serving:
    with serve(tmp_path_factory.mktemp("recovery"), "--models", "embed") as running:
        yield running


def stubs(model: str, server: int) -> list[int]:
    """The stubs of `model` below the launcher `server`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            is_ours = f"trireme_{server}_".encode() in arguments[2]
        except (OSError, IndexError):
            continue
        if is_ours and arguments[8].decode().rsplit("_", 2)[0] == model:
            found.append(int(process.name))
    return found


def eventually(condition: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_ready(own: Serving) -> bool:
    return own.get(own.health, "/ready")[0] == 200


@pytest.mark.parametrize("model", ["embed_preprocess", "embed_network", "embed_postprocess"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_stub_that_dies_or_stops_is_replaced(own: Serving, model: str, number: signal.Signals) -> None:
    before = over_http(own, "embed", "text", [b"the same before and after"])["embedding"]
    processes = stubs(model, own.process.pid)
    outcomes: list[bool] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                over_http(own, "embed", "text", [b"under load"])
                outcomes.append(True)
            except (Refused, OSError, HTTPConnectionClosed):
                outcomes.append(False)
                time.sleep(0.05)

    clients = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for client in clients:
        client.start()
    os.kill(processes[0], number)
    eventually(lambda: not is_ready(own), within_s=3)
    eventually(lambda: is_ready(own), within_s=BACK_WITHIN_S)
    before_recovery = outcomes.count(True)
    eventually(lambda: outcomes.count(True) >= before_recovery + 20, within_s=10)
    stop.set()
    for client in clients:
        client.join(timeout=10)
        assert not client.is_alive(), "a request hangs"
    after = over_http(own, "embed", "text", [b"the same before and after"])["embedding"]
    assert float((before * after).sum()) > 0.99999
    eventually(lambda: len(stubs(model, own.process.pid)) == len(processes), within_s=5)
    assert not set(stubs(model, own.process.pid)) & set(processes), "one of the old generation is left"
