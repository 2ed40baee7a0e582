"""What `trireme serve` says: to a person at a terminal, to a file, or to a program that reads JSON lines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

from trireme_server.phases import StartReport
from trireme_server.preflight import Finding, Level
from trireme_server.serve_config import LogFormat
from trireme_server.status import ModelPhase

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

Severity = Literal["info", "warning", "error"]


class Terminal(Protocol):
    """Where news goes."""

    def say(self, text: str, severity: Severity = "info") -> None:
        """One piece of news."""

    def finding(self, finding: Finding) -> None:
        """A check that is not fine."""

    def phases(self, models: Mapping[str, ModelPhase]) -> None:
        """How far every model is; called when that changes."""

    def started(self, report: StartReport, guide: Sequence[str]) -> None:
        """The server is ready for the first time; `guide` says how to use it."""

    def close(self) -> None:
        """Nothing more comes."""


def make_terminal(log_format: LogFormat, output: TextIO = sys.stdout) -> Terminal:
    """The terminal that suits the command line and `output`."""
    if log_format == "json":
        return JsonLines(output)
    return LiveTerminal(output) if output.isatty() else PlainText(output)


class PlainText:
    """One line per piece of news."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._seen: dict[str, ModelPhase] = {}

    def say(self, text: str, severity: Severity = "info") -> None:
        mark = "" if severity == "info" else f"{severity}: "
        self._line(f"{time.strftime('%H:%M:%S')} {mark}{text}")

    def finding(self, finding: Finding) -> None:
        self.say(finding_text(finding), "error" if finding.level is Level.FAIL else "warning")

    def phases(self, models: Mapping[str, ModelPhase]) -> None:
        for name, phase in models.items():
            if self._seen.get(name) is not phase:
                self.say(f"{name}: {phase.value}")
        self._seen = dict(models)

    def started(self, report: StartReport, guide: Sequence[str]) -> None:
        for line in (*start_lines(report), *guide):
            self._line(line)

    def close(self) -> None:
        self._output.flush()

    def _line(self, text: str) -> None:
        print(text, file=self._output, flush=True)


class LiveTerminal(PlainText):
    """A table of the models that moves while they load, then lines."""

    def __init__(self, output: TextIO) -> None:
        super().__init__(output)
        self._live: Live | None = None

    def phases(self, models: Mapping[str, ModelPhase]) -> None:
        if all(phase is ModelPhase.READY for phase in models.values()):
            self.close()
        elif self._live is None:
            self._live = self._start_live(models)
        else:
            self._live.update(_phase_table(models))
        self._seen = dict(models)

    def started(self, report: StartReport, guide: Sequence[str]) -> None:
        self.close()
        super().started(report, guide)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        super().close()

    def _start_live(self, models: Mapping[str, ModelPhase]) -> Live:
        from rich.console import Console
        from rich.live import Live

        live = Live(_phase_table(models), console=Console(file=self._output), transient=True, refresh_per_second=8)
        live.start()
        return live

    def _line(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            super()._line(text)


class JsonLines:
    """One JSON object per line."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._seen: dict[str, ModelPhase] = {}

    def say(self, text: str, severity: Severity = "info") -> None:
        self._line(severity, "news", text=text)

    def finding(self, finding: Finding) -> None:
        severity: Severity = "error" if finding.level is Level.FAIL else "warning"
        self._line(severity, "finding", check=finding.name, found=finding.found, fix=finding.fix)

    def phases(self, models: Mapping[str, ModelPhase]) -> None:
        for name, phase in models.items():
            if self._seen.get(name) is not phase:
                self._line("info", "phase", model=name, phase=phase.value)
        self._seen = dict(models)

    def started(self, report: StartReport, guide: Sequence[str]) -> None:
        phases = [[line.subject, line.phase, round(line.seconds, 3)] for line in report.lines]
        self._line("info", "started", seconds=report.total_s, phases=phases, other=report.other_s, guide=list(guide))

    def close(self) -> None:
        self._output.flush()

    def _line(self, severity: Severity, event: str, **fields: object) -> None:
        record = {"time": time.time(), "severity": severity, "event": event, **fields}
        print(json.dumps(record, default=str), file=self._output, flush=True)


def finding_text(finding: Finding) -> str:
    """A finding as one line: what was found, and the fix."""
    return f"{finding.name}: {finding.found}" + (f" -> {finding.fix}" if finding.fix else "")


def start_lines(report: StartReport) -> list[str]:
    """The phases of a start and their sum."""
    width = max(len(line.subject) for line in report.lines)
    lines = [f"  {line.seconds:7.2f} s  {line.subject:<{width}}  {line.phase}" for line in report.lines]
    other = f"  {report.other_s:7.2f} s  {'other':<{width}}"
    return [*lines, other, f"  {report.total_s:7.2f} s  ready: every model has answered rightly"]


def _phase_table(models: Mapping[str, ModelPhase]) -> Table:
    from rich.spinner import Spinner
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, phase in models.items():
        moves = phase in (ModelPhase.LOADING, ModelPhase.ANSWERING)
        table.add_row(Spinner("dots") if moves else "✓" if phase is ModelPhase.READY else " ", name, phase.value)
    return table
