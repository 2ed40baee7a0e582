"""How often something that crashes is started again, and after what pause. Policy only: the time is given."""

from __future__ import annotations

_QUICK_S = 10.0  # a recovery that lasts longer than this was a real one
_PATIENCE = 4  # recoveries that do not last are borne so much longer than attempts that fail
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class CrashBudget:
    """Gives up after `limit` failed attempts in a row, or after four times as many recoveries that did not last.

    The first attempt after a crash has no pause, then the pause doubles with every failure.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._failures = 0  # since it last answered
        self._relapses = 0  # crashes soon after a recovery, in a row
        self._recovered_at: float | None = None

    def crashed(self, now: float) -> float | None:
        """Notes a crash or a failed attempt; gives the seconds to wait before the next one, or None: give up."""
        if self._recovered_at is not None:
            self._relapses = self._relapses + 1 if now - self._recovered_at <= _QUICK_S else 0
            self._failures = 0
            self._recovered_at = None
        self._failures += 1
        if self._failures > self._limit or self._relapses > _PATIENCE * self._limit:
            return None
        return 0.0 if self._failures == 1 else min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (self._failures - 2))

    def recovered(self, now: float) -> None:
        """Notes that it answers again."""
        self._recovered_at = now
