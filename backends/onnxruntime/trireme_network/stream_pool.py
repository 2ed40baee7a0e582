"""Runs pieces on a runtime's streams: one after another on all threads, or side by side on one thread each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from trireme_triton.tensors import Inputs, Outputs

from trireme_network.graph import RunFailed, Runtime, Stream

REPORT_EVERY_S = 1.0


class StreamPool:
    """A wide stream that uses all `threads`, and `streams` narrow ones of one thread each.

    All threads together answer a lone piece sooner; narrow streams compute more per second. Both are kept compiled,
    which costs the compiled weights twice, unless `threads` and `streams` are both 1 or there are no narrow streams.
    """

    def __init__(self, runtime: Runtime, threads: int, streams: int) -> None:
        (self._wide,) = runtime.open_streams(1, threads)
        self._narrow = [self._wide] if threads == streams == 1 else runtime.open_streams(streams, 1) if streams else []
        self.streams = streams
        self.fills_machine = streams >= threads  # whether the narrow streams use as many cores as the wide one
        self._idle: SimpleQueue[Stream] = SimpleQueue()
        for stream in self._narrow:
            self._idle.put(stream)
        self._workers = ThreadPoolExecutor(max(1, streams), thread_name_prefix="stream")
        self._report: Callable[[], None] | None = None

    def on_progress(self, report: Callable[[], None]) -> None:
        """`report` is called after a piece, at most once a second, when there are more to come."""
        self._report = report

    def run_wide(self, pieces: Sequence[Inputs]) -> list[Outputs | RunFailed]:
        """The outputs of every piece, or why it failed; one after another on all threads."""
        return self._reported(_outcome(self._wide, piece) for piece in pieces)

    def run_side_by_side(self, pieces: Sequence[Inputs]) -> list[Outputs | RunFailed]:
        """The same, on the narrow streams."""
        return self._reported(self._workers.map(self._on_idle_stream, pieces))

    def warm_up(self, piece: Inputs) -> None:
        """Run a piece on every stream. One that the graph cannot compute warms nothing and does no harm."""
        for stream in {self._wide, *self._narrow}:
            _outcome(stream, piece)

    def close(self) -> None:
        """End the worker threads."""
        self._workers.shutdown()

    def _reported(self, outcomes: Iterable[Outputs | RunFailed]) -> list[Outputs | RunFailed]:
        """All outcomes, with a report now and then: a batch of long texts can take minutes on a small machine."""
        done: list[Outputs | RunFailed] = []
        reported_at = time.monotonic()
        for outcome in outcomes:
            done.append(outcome)
            if self._report and time.monotonic() - reported_at >= REPORT_EVERY_S:
                self._report()
                reported_at = time.monotonic()
        return done

    def _on_idle_stream(self, piece: Inputs) -> Outputs | RunFailed:
        stream = self._idle.get()
        try:
            return _outcome(stream, piece)
        finally:
            self._idle.put(stream)


def _outcome(stream: Stream, piece: Inputs) -> Outputs | RunFailed:
    try:
        return stream(piece)
    except RunFailed as failure:
        return failure
