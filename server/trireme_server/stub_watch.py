"""When a stub counts as dead or stalled. Policy only: takes samples and the time, touches no process.

A stub that works is never killed for being slow alone: it either gets CPU time, and then has `busy_s` to answer, or
it does not, and then `blocked_s` are enough, for nothing inside the machine keeps it waiting. A model that waits for
another program (a socket, a child) gets `busy_s` as well. A backend that publishes `trireme_progress_within_seconds`
promises a sign of progress within that time, and is in an endless loop when it has computed for so long without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trireme_server.stubs import StubSample

_SOME_CPU_TICKS = 2  # 20 ms: more than the stub's own background threads take while it hangs
_LEAST_SHARE = 0.9  # of a core: a main thread that got less was kept from computing, and is late without a fault


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a stub."""

    kind: Literal["gone", "stopped", "stalled"]
    text: str  # for the operator


@dataclass(frozen=True)
class StallLimits:
    """How long a stub may be in the middle of a request without a sign of progress."""

    blocked_s: float = 2.0
    promised_s: float = 2.0  # at least, whatever the backend promises
    busy_s: float = 30.0


@dataclass(frozen=True)
class ModelProgress:
    """What Triton's metrics tell about a model."""

    done: float = 0.0  # executions, answers and signs of progress so far, summed: it only matters that it moves
    in_flight: float = 0.0  # requests a backend holds outside `execute`, by its own account
    within_s: float | None = None  # the backend's promise; None: none is known


class StubWatch:
    """Judges one stub from its samples, taken a few times a second."""

    def __init__(self, limits: StallLimits, now: float) -> None:
        self._limits = limits
        self._was_stopped = False
        self._last: StubSample | None = None
        self._done = 0.0
        self._waits = 0
        self._ran_at = now  # when it was last seen to use the CPU, or idle
        self._progress_at = now  # when it was last seen to get something done, or idle
        self._progress_ns = 0  # what its main thread had computed by then

    def judge(self, sample: StubSample | None, progress: ModelProgress, seen_at: float, now: float) -> Verdict | None:
        """What is wrong with the stub; None: nothing.

        Args:
            seen_at: when `progress` was asked for: an answer that took long proves no silence until now.
            now: in seconds of a clock that stands still while this process does, so that a launcher that was itself
                suspended blames nobody.
        """
        if sample is None:
            return Verdict("gone", "its process is gone")
        stopped_twice = sample.is_stopped and self._was_stopped  # once may be a shell's job control passing by
        self._was_stopped = sample.is_stopped
        if stopped_twice:
            return Verdict("stopped", "its process was stopped")
        self._note(sample, progress, now)
        return self._stall(sample, progress, seen_at, now)

    def _note(self, sample: StubSample, progress: ModelProgress, now: float) -> None:
        last = self._last
        if last is None or (sample.is_idle and not progress.in_flight):
            self._last, self._ran_at = sample, now
            self._note_progress(sample, now)
        elif sample.thread_runtime_ns != last.thread_runtime_ns or sample.cpu_ticks - last.cpu_ticks >= _SOME_CPU_TICKS:
            self._last, self._ran_at = sample, now
        # the metrics are the model's: an instance that never waited had no part in what the others got done
        if progress.done != self._done and sample.thread_waits != self._waits:
            self._done, self._waits = progress.done, sample.thread_waits
            self._note_progress(sample, now)

    def _note_progress(self, sample: StubSample, now: float) -> None:
        self._progress_at, self._progress_ns = now, sample.thread_runtime_ns

    def _stall(self, sample: StubSample, progress: ModelProgress, seen_at: float, now: float) -> Verdict | None:
        limits = self._limits
        if now - self._ran_at >= limits.blocked_s and not sample.waits_outside:
            text = f"it has not run for {now - self._ran_at:.1f} s in the middle of a request"
            return Verdict("stalled", text)
        busy_s, silent_s = now - self._progress_at, seen_at - self._progress_at
        if busy_s >= limits.busy_s:
            return Verdict("stalled", f"it has been busy for {busy_s:.1f} s without an answer")
        if self._breaks_its_promise(silent_s, sample, progress.within_s):
            return Verdict("stalled", f"it has computed for {busy_s:.1f} s without a sign of progress")
        return None

    def _breaks_its_promise(self, silent_s: float, sample: StubSample, within_s: float | None) -> bool:
        if within_s is None:
            return False
        computed_s = (sample.thread_runtime_ns - self._progress_ns) / 1e9
        allowed_s = max(within_s, self._limits.promised_s)
        return silent_s >= allowed_s and computed_s >= allowed_s * _LEAST_SHARE
