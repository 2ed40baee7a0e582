"""The regions in /dev/shm through which tritonserver and its stubs talk.

A region goes when its server ends by itself; a server that was killed leaves them behind. Ours are named by a prefix
of their own (`--backend-config=python,shm-region-prefix-name=...`), so that they can be told from others'.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

from trireme_server.processes import Processes

SHM = Path("/dev/shm")
PATTERNS = ("triton_*_shm_region_*", "trireme_*_shm_region_*")
_SETTLED_S = 10.0  # a region is created before it is mapped: younger ones are left alone


def region_prefix(launcher_pid: int) -> str:
    """The prefix of the regions of the server that this launcher starts."""
    return f"trireme_{launcher_pid}_shm_region_"


def regions(prefix: str, folder: Path = SHM) -> list[Path]:
    """The regions whose names start with `prefix`."""
    return sorted(folder.glob(f"{prefix}*"))


def stale_regions(processes: Processes, folder: Path = SHM) -> list[Path]:
    """Regions of Triton that no live process has mapped, and that are not just being made."""
    candidates = [path for pattern in PATTERNS for path in folder.glob(pattern) if _age_s(path) > _SETTLED_S]
    if not candidates:
        return []
    mapped = {file for pid in processes.pids() for file in processes.mapped_files(pid)}
    return sorted(path for path in candidates if str(path) not in mapped)


def remove(paths: Iterable[Path]) -> int:
    """Removes regions; returns how many bytes that freed. One that is gone or another user's is left."""
    freed = 0
    for path in paths:
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            path.unlink()
            freed += size
    return freed


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
