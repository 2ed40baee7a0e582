"""What is read from the machine."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trireme_bench.processes import CpuTimes, cpu_times, memory, serving_process, tree

LISTEN = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
server.accept()
"""
BUSY_CHILD = "import os\nif not os.fork():\n    while True: pass\nos.wait()"


def test_the_process_behind_a_port_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert serving_process(port) == os.getpid()
    assert serving_process(port) is None


def test_a_server_is_watched_from_its_launcher_down(tmp_path: Path) -> None:
    (tmp_path / "trireme").write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {LISTEN!r}])")
    command = [sys.executable, str(tmp_path / "trireme"), "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout
        port = int(launcher.stdout.readline())
        assert serving_process(port) == launcher.pid
        socket.create_connection(("127.0.0.1", port)).close()


def test_the_cpu_time_of_a_server_is_that_of_its_whole_tree() -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY_CHILD])
    try:
        while len(tree(process.pid)) < 2:
            time.sleep(0.01)
        before = cpu_times(process.pid)
        deadline = time.monotonic() + 30
        while (after := cpu_times(process.pid)).server - before.server < 0.1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert after.since(before).server > 0
    finally:
        for one in tree(process.pid):
            one.kill()
        process.wait()


def test_what_is_neither_server_nor_generator_is_foreign() -> None:
    before = CpuTimes(server=1, generator=1, machine=10, available=100)
    shares = CpuTimes(server=3, generator=2, machine=14, available=110).since(before)
    assert (shares.server, shares.generator, shares.foreign) == pytest.approx((0.2, 0.1, 0.1))


def test_memory_names_processes_and_shared_memory() -> None:
    own, shared = memory(os.getpid())[0], memory(os.getpid())[-1]
    assert own.name.endswith(f"[{os.getpid()}]")
    assert own.bytes > 1 << 20
    assert shared.name == "/dev/shm"


def test_a_process_that_is_gone_is_no_error() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert tree(process.pid) == []
    assert cpu_times(process.pid).server == 0
