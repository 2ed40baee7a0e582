"""Runs pieces on a runtime's streams: one after another on all threads, or side by side on one thread each."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from trireme_triton.progress import UNHEARD, Progress
from trireme_triton.tensors import Inputs, Outputs

from trireme_network.graph import RunFailed, Runtime, Stream
from trireme_network.pace import Extent, Pace
from trireme_network.pieces import Piece

Outcomes = dict[int, Outputs | RunFailed]  # by the piece's number


class StreamPool:
    """A wide stream that uses all `threads`, and `streams` narrow ones of one thread each.

    All threads together answer a lone piece sooner; narrow streams compute more per second. Both are kept compiled,
    which costs the compiled weights twice, unless `threads` and `streams` are both 1 or there are no narrow streams.
    """

    def __init__(self, runtime: Runtime, threads: int, streams: int) -> None:
        (wide,) = runtime.open_streams(1, threads)
        self._wide = _Paced(wide, Pace())
        narrow = [] if threads == streams == 1 or not streams else runtime.open_streams(streams, 1)
        self._narrow = [_Paced(stream, Pace()) for stream in narrow] or [self._wide]
        self.streams = streams
        self.fills_machine = streams >= threads  # whether the narrow streams use as many cores as the wide one
        self._workers = ThreadPoolExecutor(max(1, streams - 1), thread_name_prefix="stream")
        self._progress: Progress = UNHEARD

    def report_to(self, progress: Progress) -> None:
        """`progress` hears of every piece that is done, and how long one may take."""
        self._progress = progress

    def allow(self, part_s: float) -> None:
        """Whatever is done beside the runs may take so long."""
        self._progress.allow(part_s)

    def run_wide(self, pieces: Sequence[Piece]) -> list[Outputs | RunFailed]:
        """The outputs of every piece, or why it failed; one after another on all threads."""
        return self._run([self._wide], pieces)

    def run_side_by_side(self, pieces: Sequence[Piece]) -> list[Outputs | RunFailed]:
        """The same, on the narrow streams."""
        return self._run(self._narrow, pieces)

    def warm_up(self, inputs: Inputs) -> None:
        """Run them on every stream. What the graph cannot compute warms nothing and does no harm."""
        for stream in {self._wide, *self._narrow}:
            stream.run(Piece.alone(inputs))

    def close(self) -> None:
        """End the worker threads."""
        self._workers.shutdown()

    def _run(self, streams: Sequence[_Paced], pieces: Sequence[Piece]) -> list[Outputs | RunFailed]:
        """Every stream takes the next piece when it is free. The first one is this thread's, which alone reports."""
        streams = streams[: len(pieces)]
        self._progress.allow(max((each.allowance_s(piece.extent) for each in streams for piece in pieces), default=0.0))
        outcomes: Outcomes = {}
        todo = deque(enumerate(pieces))
        helpers = [self._workers.submit(_work, stream, todo, outcomes) for stream in streams[1:]]
        try:
            for stream in streams[:1]:
                _work(stream, todo, outcomes, self._progress)
        finally:
            if helpers:  # waiting for none takes as long as everything else here
                wait(helpers)  # no stream runs on when this is over
        for helper in helpers:
            helper.result()
        return [outcomes[number] for number in range(len(pieces))]


class _Paced:
    """A stream that knows how long its runs take."""

    def __init__(self, stream: Stream, pace: Pace) -> None:
        self._stream = stream
        self._pace = pace

    def allowance_s(self, extent: Extent) -> float:
        return self._pace.allowance_s(extent)

    def run(self, piece: Piece) -> Outputs | RunFailed:
        begun = time.monotonic()
        try:
            outputs = self._stream(piece.inputs)
        except RunFailed as failure:
            return failure
        self._pace.note(piece.extent, time.monotonic() - begun)
        return outputs


def _work(stream: _Paced, todo: deque[tuple[int, Piece]], outcomes: Outcomes, progress: Progress | None = None) -> None:
    """Run pieces until none is left. A deque gives every item to one thread only."""
    while todo:
        try:
            number, piece = todo.popleft()
        except IndexError:  # another thread was quicker
            return
        outcomes[number] = stream.run(piece)
        if progress:
            progress.beat()
