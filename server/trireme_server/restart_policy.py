"""How often something that crashes is started again, and after what pause. Policy only: the time is given."""

from __future__ import annotations

from collections import deque

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class CrashBudget:
    """At most `limit` crashes within `window_s`; the pause doubles with each, and the first has none."""

    def __init__(self, limit: int, window_s: float) -> None:
        self._limit = limit
        self._window_s = window_s
        self._crashes: deque[float] = deque()

    @property
    def crashes(self) -> int:
        """How many crashes lie within the window that ended with the last one."""
        return len(self._crashes)

    def pause_after_crash(self, now: float) -> float | None:
        """Notes a crash; gives the seconds to wait before the next start, or None: give up."""
        while self._crashes and now - self._crashes[0] > self._window_s:
            self._crashes.popleft()
        self._crashes.append(now)
        if len(self._crashes) > self._limit:
            return None
        if len(self._crashes) == 1:
            return 0.0
        return float(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (len(self._crashes) - 2)))
