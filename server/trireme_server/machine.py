"""How many cores and how much memory this process may use: the cgroup's limits, not the host's figures.

cgroup v2: `cpu.max`, `memory.max` (kernel documentation, admin-guide/cgroup-v2); v1: `cpu.cfs_quota_us`,
`memory.limit_in_bytes`. A limit of any ancestor counts as well, so the whole path up is read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """What there is to use."""

    cores: int
    memory_available: int  # bytes: free on the machine and under the cgroup's limit, whichever is less
    has_gpu: bool


def read_machine(root: Path = Path("/"), affinity: int | None = None) -> Machine:
    """The machine as this process may use it. `affinity` is the number of CPUs it may run on."""
    allowed = affinity if affinity is not None else len(os.sched_getaffinity(0))
    return Machine(
        cores=available_cores(root, allowed),
        memory_available=available_memory(root),
        has_gpu=any((root / "dev").glob("nvidia[0-9]*")),
    )


def available_cores(root: Path, affinity: int) -> int:
    """Whole cores under the CPU quota; at least one. A quota of 1.5 gives 2: half a core would stay unused."""
    quotas = [quota for folder in _cgroup_folders(root, "cpu") if (quota := _cpu_quota(folder)) is not None]
    return max(1, min([affinity, *(math.ceil(quota) for quota in quotas)]))


def available_memory(root: Path) -> int:
    """Bytes that can still be taken."""
    return min([_host_memory_available(root), *_cgroup_memory_available(root)])


def _cpu_quota(folder: Path) -> float | None:
    quota, _, period = (_read(folder / "cpu.max") or "").partition(" ")  # v2: "150000 100000" or "max 100000"
    if not period:
        quota, period = _read(folder / "cpu.cfs_quota_us") or "-1", _read(folder / "cpu.cfs_period_us") or "100000"
    return int(quota) / int(period) if quota.isdigit() else None


def _host_memory_available(root: Path) -> int:
    lines = (_read(root / "proc/meminfo") or "").splitlines()
    (kib,) = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return int(kib) * 1024


def _cgroup_memory_available(root: Path) -> Iterator[int]:
    for folder in _cgroup_folders(root, "memory"):
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes")
        if limit is not None and used is not None:
            yield max(0, limit - used + _reclaimable(folder))


def _reclaimable(folder: Path) -> int:
    """File pages in the page cache count as used but go when memory is needed."""
    fields = dict(line.split() for line in (_read(folder / "memory.stat") or "").splitlines())
    return int(fields.get("total_inactive_file", fields.get("inactive_file", 0)))


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's cgroup and its ancestors, in v1 and v2."""
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            bases = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"]
        elif controller in controllers.split(","):
            bases = [root / "sys/fs/cgroup" / controllers, root / "sys/fs/cgroup" / controller]
        else:
            continue
        for base in bases:
            folder = base / path.lstrip("/")
            yield from (each for each in (folder, *folder.parents) if each == base or base in each.parents)


def _number(path: Path) -> int | None:
    text = _read(path)
    return int(text) if text is not None and text.isdigit() else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
