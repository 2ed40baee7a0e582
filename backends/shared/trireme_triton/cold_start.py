"""How long the parts of a stub's start take. A `model.py` imports this module first: `process` ends at that moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Phase = Literal["process", "imports", "read", "compile", "warmup"]


def _process_age_s() -> float:
    """Seconds since this process was started, to the resolution of the kernel's clock ticks (10 ms).

    The start is field 22 of /proc/self/stat, in ticks since boot (man 5 proc).
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


_PROCESS_S = _process_age_s()


class ColdStart:
    """A stop watch per phase; a phase entered twice adds up."""

    def __init__(self) -> None:
        self.seconds: dict[Phase, float] = {"process": _PROCESS_S}

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Counts the time spent inside the `with` block as `name`."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
