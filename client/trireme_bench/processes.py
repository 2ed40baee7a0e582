"""What the processes of a server use, and what else the machine is doing. Linux, and servers on this machine only."""

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

STUB = "triton_python_backend_stub"
STUB_INSTANCE_ARGUMENT = 8  # such as embed_network_0_0


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of CPU time so far."""

    server: float
    generator: float  # this process
    machine: float  # all processes
    available: float  # what all cores could have given

    def since(self, earlier: "CpuTimes") -> "CpuShares":
        available = max(self.available - earlier.available, 1e-9)
        server, generator = self.server - earlier.server, self.generator - earlier.generator
        foreign = max(0.0, self.machine - earlier.machine - server - generator)
        return CpuShares(server / available, generator / available, foreign / available)


@dataclass(frozen=True)
class CpuShares:
    """Shares of all the cores of the machine, 0 to 1."""

    server: float
    generator: float
    foreign: float


@dataclass(frozen=True)
class Memory:
    """Bytes of one process that are in RAM, or of the files in /dev/shm."""

    name: str
    bytes: int


def serving_process(port: int) -> int | None:
    """The process that listens on a TCP port of this machine, or the `trireme serve` that started it.

    None if no process that we may look into listens there.
    """
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            return _launcher(connection.pid) or connection.pid
    return None


def _launcher(pid: int | None) -> int | None:
    for ancestor in psutil.Process(pid).parents() if pid else ():
        names = [Path(argument).name for argument in _arguments(ancestor)]
        if ("trireme", "serve") in pairwise(names):
            return ancestor.pid
    return None


def cpu_times(server_pid: int | None) -> CpuTimes:
    machine = psutil.cpu_times()
    idle = machine.idle + machine.iowait
    own = os.times()
    return CpuTimes(
        server=sum(map(_cpu_seconds, tree(server_pid))),
        generator=own.user + own.system,
        machine=sum(machine[:8]) - idle,  # the fields behind `steal` are already counted in the first ones
        available=sum(machine[:8]),
    )


def memory(server_pid: int) -> list[Memory]:
    """Every process of the server, and the shared memory that they exchange tensors through."""
    found = [Memory(_name(process), size) for process in tree(server_pid) if (size := _resident(process)) is not None]
    shm = os.statvfs("/dev/shm")
    return [*found, Memory("/dev/shm", (shm.f_blocks - shm.f_bfree) * shm.f_frsize)]


def tree(pid: int | None) -> list[psutil.Process]:
    """A process and all below it."""
    if pid is None:
        return []
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def _resident(process: psutil.Process) -> int | None:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return None


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def _name(process: psutil.Process) -> str:
    arguments = _arguments(process)
    name = Path(arguments[0]).name if arguments else "?"
    if name == STUB and len(arguments) > STUB_INSTANCE_ARGUMENT:
        name = arguments[STUB_INSTANCE_ARGUMENT]
    return f"{name} [{process.pid}]"
