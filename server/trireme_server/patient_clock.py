"""A clock for judging others."""

from __future__ import annotations

import time
from collections.abc import Callable


class PatientClock:
    """Seconds in which this process could look: a longer gap between two looks counts as `longest_s`.

    So nobody is blamed for the time in which the launcher itself, or the whole machine, was suspended.
    """

    def __init__(self, longest_s: float = 1.0, time_s: Callable[[], float] = time.monotonic) -> None:
        self._longest_s = longest_s
        self._time_s = time_s
        self._seen = time_s()
        self._now = 0.0

    def look(self) -> float:
        """The time now."""
        seen = self._time_s()
        self._now += min(seen - self._seen, self._longest_s)
        self._seen = seen
        return self._now
