"""How long a run may take, judged by the runs before it. Arithmetic only."""

from __future__ import annotations

from typing import NamedTuple

MARGIN = 5.0  # for a busy machine and the first run of a shape
UNMEASURED_S = 30.0  # for a network of which nothing is known yet


class Extent(NamedTuple):
    """How much there is to compute."""

    rows: int
    row_items: int  # of all inputs together

    @property
    def work(self) -> int:
        """Larger for what takes longer: attention makes the time grow with the square of a row at most."""
        return self.rows * self.row_items**2


class Pace:
    """Seconds of the largest run so far. For one thread."""

    def __init__(self) -> None:
        self._largest = Extent(0, 0)
        self._largest_s = 0.0

    def note(self, extent: Extent, run_s: float) -> None:
        """A run took so long."""
        if extent.work > self._largest.work:
            self._largest, self._largest_s = extent, run_s
        elif extent == self._largest:
            self._largest_s = min(self._largest_s, run_s)  # the slower one was disturbed

    def allowance_s(self, extent: Extent) -> float:
        """How long a run takes that can only be stuck."""
        if not self._largest.work:
            return UNMEASURED_S
        return MARGIN * self._largest_s * max(1.0, extent.work / self._largest.work)
