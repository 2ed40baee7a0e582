"""Trireme's metrics beside Triton's own on `/metrics`. Knows names and labels, not where the values come from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from trireme_triton.cold_start import Phase

BEAT_S = 0.5  # two signs of progress are at least so far apart
PROMISED_S = 2.0  # the least promise; the launcher allows no less


class ColdStartSeconds:
    """The gauge `trireme_cold_start_seconds{model,phase}`: how long each phase of a stub's start took."""

    def __init__(self, model: str, seconds: Mapping[Phase, float]) -> None:
        self._family = _family("trireme_cold_start_seconds", "Seconds a model's start took, by phase", "GAUGE")
        self._gauges = []  # kept: a metric goes when its object goes
        for phase, value in seconds.items():
            gauge = self._family.Metric(labels={"model": model, "phase": phase})
            gauge.set(value)
            self._gauges.append(gauge)


class StageErrors:
    """The counter `trireme_stage_errors_total{model,stage,reason}`: requests refused by a stage."""

    def __init__(self, model: str, stage: str) -> None:
        self._family = _family("trireme_stage_errors_total", "Requests refused by a stage, by reason", "COUNTER")
        self._labels = {"model": model, "stage": stage}
        self._counters: dict[str, Any] = {}

    def count(self, reason: str) -> None:
        """One more request was refused for `reason`, a word from a small fixed set."""
        if reason not in self._counters:
            self._counters[reason] = self._family.Metric(labels={**self._labels, "reason": reason})
        self._counters[reason].increment(1)


class ProgressMetrics:
    """The counter `trireme_progress_total{model}`, which moves while one execute takes long.

    With `promises` also the gauge `trireme_progress_within_seconds{model}`: a stub that has worked for so long without
    a move is in an endless loop. It grows until the model is loaded again.
    """

    def __init__(self, model: str, *, promises: bool) -> None:
        labels = {"model": model}
        self._total = _family("trireme_progress_total", "Signs of progress inside long executes", "COUNTER")
        self._counter = self._total.Metric(labels=labels)
        self._due_at = 0.0
        self._within = None
        self._within_s = 0.0
        if promises:
            self._promise = _family("trireme_progress_within_seconds", "Seconds between signs of progress", "GAUGE")
            self._within = self._promise.Metric(labels=labels)
            self.allow(PROMISED_S - BEAT_S)  # which makes it PROMISED_S

    def beat(self) -> None:
        """Some part of what is being executed is done. Told to Triton at most every BEAT_S."""
        now = time.monotonic()
        if now >= self._due_at:
            self._counter.increment(1)
            self._due_at = now + BEAT_S

    def allow(self, part_s: float) -> None:
        """From now on a part may take so long. The model's other instances share the gauge; reading it is not cheap."""
        if self._within is not None and part_s > self._within_s:
            self._within_s = part_s
            self._within.set(max(part_s + BEAT_S, self._within.value()))  # the last beat may not have been told


def _family(name: str, description: str, kind: str) -> Any:
    """A metric family. Stubs that name the same one, with the same description and kind, share it."""
    import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

    return pb_utils.MetricFamily(name=name, description=description, kind=getattr(pb_utils.MetricFamily, kind))
