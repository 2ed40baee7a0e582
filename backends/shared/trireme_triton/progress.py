"""How a backend says that it gets on while one execute takes long. Knows no metric and no work."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Where signs of progress go."""

    def beat(self) -> None:
        """Some part of what is being executed is done. Cheap: call it after every part."""
        ...

    def allow(self, part_s: float) -> None:
        """From now on a part may take so long, if that is longer than what was allowed before."""
        ...


class _Unheard:
    def beat(self) -> None:
        """Does nothing."""

    def allow(self, part_s: float) -> None:
        """Does nothing."""


UNHEARD: Progress = _Unheard()
