"""What the kernel tells about processes (man 5 proc). Reads only; a process that is gone gives None."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

RUNNING = -1
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessStat:
    """A line of /proc/PID/stat, as far as it is used."""

    pid: int
    name: str
    state: str  # R running, S sleeping, D uninterruptible, T stopped, Z dead but not yet reaped
    parent: int
    cpu_ticks: int  # user and system, all threads
    start_ticks: int  # since boot: together with the pid it names a process for good

    @property
    def is_alive(self) -> bool:
        return self.state not in "ZX"

    @property
    def age_s(self) -> float:
        """Seconds since it was started, to a clock tick (10 ms)."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.start_ticks / CLOCK_TICKS_PER_S


class Processes:
    """The processes of this machine. `root` is replaced in tests."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self.root = root

    def pids(self) -> list[int]:
        return [int(entry.name) for entry in self.root.iterdir() if entry.name.isdigit()]

    def stat(self, pid: int) -> ProcessStat | None:
        text = self._read(pid, "stat")
        if text is None:
            return None
        head, _, tail = text.rpartition(")")  # the name may hold spaces and parentheses itself
        fields = tail.split()
        return ProcessStat(
            pid=pid,
            name=head.partition("(")[2],
            state=fields[0],
            parent=int(fields[1]),
            cpu_ticks=int(fields[11]) + int(fields[12]),
            start_ticks=int(fields[19]),
        )

    def is_same(self, pid: int, start_ticks: int) -> bool:
        """Whether `pid` is alive and still the process that started at `start_ticks`."""
        stat = self.stat(pid)
        return stat is not None and stat.is_alive and stat.start_ticks == start_ticks

    def arguments(self, pid: int) -> tuple[str, ...]:
        """The command line; empty when the process is gone or dead."""
        return tuple((self._read(pid, "cmdline") or "").split("\0")[:-1])

    def children(self, pid: int) -> list[int]:
        """The live and dead children of any thread of `pid`."""
        try:
            tasks = list((self.root / str(pid) / "task").iterdir())
        except OSError:
            return []
        return [int(child) for task in tasks for child in (_read_text(task / "children") or "").split()]

    def thread_runtime_ns(self, pid: int) -> int | None:
        """How long the main thread has run on a CPU."""
        text = self._read(pid, f"task/{pid}/schedstat")
        return int(text.split()[0]) if text else None

    def thread_waits(self, pid: int) -> int:
        """How often the main thread has given up the CPU to wait for something."""
        lines = (self._read(pid, f"task/{pid}/status") or "").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches")), 0)

    def thread_system_call(self, pid: int) -> tuple[int, int] | None:
        """The system call the main thread is in, and its first argument; None when the kernel does not tell us.

        `RUNNING` stands for the call of a thread that is in none.
        """
        fields = (self._read(pid, f"task/{pid}/syscall") or "").split()
        if not fields:
            return None
        return (int(fields[0]), int(fields[1], 16)) if fields[0].isdigit() else (RUNNING, 0)

    def mapped_file(self, pid: int, address: int) -> str | None:
        """The file that is mapped at `address`."""
        for line in (self._read(pid, "maps") or "").splitlines():
            bounds, *_, last = line.split()
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            if begin <= address < end:
                return last if last.startswith("/") else None
        return None

    def mapped_files(self, pid: int) -> set[str]:
        """Every file that is mapped."""
        lines = (self._read(pid, "maps") or "").splitlines()
        return {line[line.index("/") :].removesuffix(" (deleted)") for line in lines if "/" in line}

    def sockets(self, pid: int) -> dict[str, int]:
        """Inode of a socket -> one of the file descriptors that hold it."""
        found = {}
        for descriptor in self._descriptors(pid):
            try:
                target = os.readlink(descriptor)
            except OSError:
                continue
            if target.startswith("socket:["):
                found[target[8:-1]] = int(descriptor.name)
        return found

    def network_table(self, pid: int, name: str) -> list[str]:
        """The lines of /proc/PID/net/NAME, without the heading."""
        return (self._read(pid, f"net/{name}") or "").splitlines()[1:]

    def _descriptors(self, pid: int) -> list[Path]:
        try:
            return list((self.root / str(pid) / "fd").iterdir())
        except OSError:
            return []

    def _read(self, pid: int, name: str) -> str | None:
        return _read_text(self.root / str(pid) / name)


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:  # gone meanwhile, or another user's
        return None
