"""What this process may use: processors and memory, under the limits of its control group."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def usable_cores(root: Path = CGROUP) -> int:
    """Cores it may run on, at most its quota, at least one."""
    allowed = len(os.sched_getaffinity(0))
    quota = _quota(root)
    return allowed if quota is None else max(1, min(allowed, round(quota)))


def free_memory(root: Path = CGROUP, meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes that can still be taken: of the machine, and under the limit."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = _number(root / "memory.max"), _number(root / "memory.current")
    return free if limit is None or used is None else max(0, min(free, limit - used))


def _quota(root: Path) -> float | None:
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
