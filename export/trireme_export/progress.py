"""What an export tells the one who waits for it: phases with a bar on a terminal, a line each elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Advance = Callable[[int, int], None]  # (done, total), in whatever unit the phase counts


class Reporter:
    """Phases of the export of one entry after the other."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, entry: str, text: str) -> None:
        """One line about an entry."""
        self.console.print(f"[bold]{entry:<10}[/] {text}", highlight=False, soft_wrap=True)

    @contextmanager
    def phase(self, entry: str, text: str) -> Iterator[Advance]:
        """A phase that is shown while it lasts; its line with the time taken stays."""
        started = time.monotonic()
        with self._bar() as progress:
            task = progress.add_task(f"{entry:<10} {text}", total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)
        self.say(entry, f"{text} [dim]{time.monotonic() - started:.1f} s[/]")

    def _bar(self) -> Progress:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        return Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)
