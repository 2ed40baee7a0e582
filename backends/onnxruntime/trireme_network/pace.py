"""How long a run may take, judged by the runs before it. Arithmetic only."""

from __future__ import annotations

MARGIN = 5.0  # for a busy machine and the first run of a shape


class Pace:
    """Seconds of the largest run so far. Attention makes a network's time grow with the square of its input at most."""

    def __init__(self) -> None:
        self._size = 0
        self._seconds = 0.0

    def note(self, size: int, seconds: float) -> None:
        """A run over inputs of `size` items took so long."""
        if size > self._size:
            self._size, self._seconds = size, seconds
        elif size == self._size:
            self._seconds = min(self._seconds, seconds)  # the slower one was disturbed

    def allowance(self, size: int) -> float:
        """Seconds after which a run over `size` items can only be stuck; 0 without any experience."""
        return MARGIN * self._seconds * max(1.0, size / max(1, self._size)) ** 2
