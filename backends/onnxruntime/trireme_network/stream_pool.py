"""Runs pieces on the streams of a runtime: on all threads one by one, or one piece per stream side by side."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from trireme_triton.tensors import Inputs, Outputs

from trireme_network.graph import RunFailed, Runtime, Stream


class StreamPool:
    """`count` streams of one thread each, and one stream that uses all `threads` for a lone piece.

    A stream per thread computes more per second, all threads on one piece answer it sooner. Both are kept compiled,
    which costs the compiled weights a second time; with `count` 1 there is only the stream with all threads.
    """

    def __init__(self, runtime: Runtime, threads: int, count: int) -> None:
        (self._alone,) = runtime.open_streams(1, threads)
        self.count = count
        self._idle: SimpleQueue[Stream] = SimpleQueue()
        self._streams = runtime.open_streams(count, max(1, threads // count)) if count > 1 else [self._alone]
        for stream in self._streams:
            self._idle.put(stream)
        self._workers = ThreadPoolExecutor(count, thread_name_prefix="stream")

    def run(self, pieces: Sequence[Inputs], *, side_by_side: bool) -> list[Outputs | RunFailed]:
        """The outputs of every piece, or why it failed."""
        if not side_by_side:
            return [_outcome(self._alone, piece) for piece in pieces]
        return list(self._workers.map(self._on_idle_stream, pieces))

    def warm_up(self, piece: Inputs) -> None:
        """Run a piece on every stream. One that the graph cannot compute warms nothing and does no harm."""
        for stream in {self._alone, *self._streams}:
            _outcome(stream, piece)

    def close(self) -> None:
        """End the worker threads."""
        self._workers.shutdown()

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
