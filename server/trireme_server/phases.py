"""Where the time of a start went: phases along the path that took longest, which add up to the wall time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LAUNCHER = "trireme"
BACKEND_PHASES = ("process", "imports", "read", "compile", "warmup")  # docs/contracts.md, 6


@dataclass(frozen=True)
class Span:
    """Something that was measured from `begin` to `end`, in seconds of the monotonic clock."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True)
class EntryStart:
    """How an entry came up: the loads of its steps (side by side), of the ensemble, and its first right answer."""

    steps: Mapping[str, Span]
    ensemble: Span | None  # None: the entry is a single model, whose load is among `steps`
    answer: Span


@dataclass(frozen=True)
class PhaseSeconds:
    """One line of the report."""

    subject: str  # a model, or LAUNCHER
    phase: str
    seconds: float


@dataclass(frozen=True)
class StartReport:
    """A whole start. The lines and `other_s` add up to `total_s`."""

    lines: tuple[PhaseSeconds, ...]
    total_s: float

    @property
    def other_s(self) -> float:
        """What no phase accounts for."""
        return self.total_s - sum(line.seconds for line in self.lines)


def account(
    *,
    process_start: float,
    launcher: Sequence[tuple[str, Span]],
    entries: Mapping[str, EntryStart],
    backend_phases: Mapping[str, Mapping[str, float]],
) -> StartReport:
    """The start as a report.

    Args:
        process_start: when the launcher's process was started.
        launcher: its own phases, one after the other; the last ends when the server lives.
        entries: every entry that was brought up; the one that answered last decides.
        backend_phases: what each model's stub measured itself, by phase.
    """
    name, last = max(entries.items(), key=lambda item: item[1].answer.end)
    step, load = max(last.steps.items(), key=lambda item: item[1].end)
    lines = [PhaseSeconds(LAUNCHER, phase, span.seconds) for phase, span in launcher]
    lines.append(PhaseSeconds(step, "waiting", load.begin - launcher[-1][1].end))
    lines += _load_lines(step, load, backend_phases.get(step, {}))
    if last.ensemble is not None:
        lines.append(PhaseSeconds(name, "load", last.ensemble.seconds))
    lines.append(PhaseSeconds(name, "first answer", last.answer.seconds))
    return StartReport(tuple(lines), last.answer.end - process_start)


def _load_lines(model: str, load: Span, measured: Mapping[str, float]) -> list[PhaseSeconds]:
    """A load request by the stub's own phases; what is left of it is Triton's: `load`."""
    lines = [PhaseSeconds(model, phase, measured[phase]) for phase in BACKEND_PHASES if phase in measured]
    rest = load.seconds - sum(line.seconds for line in lines)
    return [*lines, PhaseSeconds(model, "load", max(0.0, rest))]
