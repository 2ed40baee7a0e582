"""The Python backend's stubs: which process runs which model, and what it is doing.

A stub's main thread takes requests from a queue in its shared-memory region. While it waits there it sits in the
system call futex on an address inside that region; anywhere else it is in the middle of a request.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from trireme_server.find_server import STUB
from trireme_server.processes import Processes

_INSTANCE = 8  # which argument of a stub is its instance's name
# futex, and the calls by which a program waits for another one over the network (asm/unistd.h)
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
_WAITS_OUTSIDE: frozenset[int] = {
    "x86_64": frozenset({0, 7, 23, 42, 43, 45, 47, 61, 232, 270, 271, 281}),
    "aarch64": frozenset({22, 63, 72, 73, 203, 207, 212, 260}),
}.get(platform.machine(), frozenset())


@dataclass(frozen=True)
class Stub:
    """One stub: one instance of a model."""

    pid: int
    start_ticks: int
    model: str
    region: str  # the name of its file in /dev/shm
    instance: str | None = None  # the name Triton gives it, the same in every generation; None: not known


@dataclass(frozen=True)
class StubSample:
    """What a stub is doing at one moment."""

    is_stopped: bool  # by SIGSTOP or a terminal, not by a debugger
    is_idle: bool  # waits for a request, as far as its main thread is concerned
    waits_outside: bool  # for another program: a database, a web service
    thread_runtime_ns: int  # of its main thread
    thread_waits: int  # how often that thread has waited for anything; it does between two requests
    cpu_ticks: int  # of all its threads and its own child processes


def find_stubs(processes: Processes, server_pid: int) -> list[Stub]:
    """The live stubs of the server."""
    found = (_stub(processes, pid) for pid in processes.children(server_pid))
    return [stub for stub in found if stub is not None]


def _stub(processes: Processes, pid: int) -> Stub | None:
    arguments, stat = processes.arguments(pid), processes.stat(pid)
    if stat is None or not stat.is_alive or len(arguments) < 3 or Path(arguments[0]).name != STUB:
        return None
    model_file = Path(arguments[1])  # REPOSITORY/MODEL/VERSION/model.py
    instance = arguments[_INSTANCE] if len(arguments) > _INSTANCE else None
    return Stub(pid, stat.start_ticks, model_file.parts[-3], arguments[2], instance)


class StubProbe:
    """Takes samples of one stub."""

    def __init__(self, processes: Processes, stub: Stub) -> None:
        self._processes = processes
        self._stub = stub
        self._in_region: dict[int, bool] = {}  # by address; looking one up reads the whole memory map

    def sample(self) -> StubSample | None:
        """What it does now; None when it is gone."""
        pid = self._stub.pid
        stat = self._processes.stat(pid)
        if stat is None or not stat.is_alive or stat.start_ticks != self._stub.start_ticks:
            return None
        call = self._processes.thread_system_call(pid)
        is_idle = call is None or (call[0] == _FUTEX and self._is_in_region(call[1]))  # None: not known, so not blamed
        return StubSample(
            is_stopped=stat.state == "T",
            is_idle=is_idle,
            waits_outside=call is not None and call[0] in _WAITS_OUTSIDE,
            thread_runtime_ns=self._processes.thread_runtime_ns(pid) or 0,
            thread_waits=self._processes.thread_waits(pid),
            cpu_ticks=stat.cpu_ticks + (0 if is_idle else self._children_cpu_ticks(pid)),
        )

    def _is_in_region(self, address: int) -> bool:
        if address not in self._in_region:
            if len(self._in_region) > 256:
                self._in_region.clear()
            mapped = self._processes.mapped_file(self._stub.pid, address)
            self._in_region[address] = mapped is not None and os.path.basename(mapped) == self._stub.region
        return self._in_region[address]

    def _children_cpu_ticks(self, pid: int) -> int:
        stats = (self._processes.stat(child) for child in self._processes.children(pid))
        return sum(stat.cpu_ticks for stat in stats if stat is not None)
