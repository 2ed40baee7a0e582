"""How many cores this process may use, and whether they compute in bf16. Knows Linux, not Triton."""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
_NATIVE_BF16 = {"avx512_bf16", "amx_bf16"}  # flags of /proc/cpuinfo


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Cores under this process's affinity and the CPU quota of its container, at least 1."""
    cores = len(os.sched_getaffinity(0))
    quota = _quota_v2(cgroup / "cpu.max") or _quota_v1(cgroup / "cpu")
    return max(1, min(cores, math.ceil(quota))) if quota else cores


def computes_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the CPU has instructions for bf16. Without them a runtime may still offer it, converting to and fro."""
    for line in cpuinfo.read_text().splitlines():
        if line.startswith("flags"):
            return bool(_NATIVE_BF16 & set(line.split()))
    return False


def _quota_v2(file: Path) -> float | None:
    """Cores in `cpu.max` (cgroup v2: "quota period" in microseconds, or "max period"), `None` without a limit."""
    if not file.exists():
        return None
    quota, period = file.read_text().split()
    return None if quota == "max" else int(quota) / int(period)


def _quota_v1(folder: Path) -> float | None:
    """Cores in `cpu.cfs_quota_us` (cgroup v1; -1: no limit), `None` without one."""
    if not (folder / "cpu.cfs_quota_us").exists():
        return None
    quota = int((folder / "cpu.cfs_quota_us").read_text())
    return None if quota <= 0 else quota / int((folder / "cpu.cfs_period_us").read_text())
