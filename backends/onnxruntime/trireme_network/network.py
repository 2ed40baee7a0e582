"""Answers requests with a graph: arranges what is waiting, runs it, and lets no request suffer from another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from trireme_triton.progress import Progress
from trireme_triton.tensors import Answer, Inputs, InvalidRequest, Outputs

from trireme_network.graph import RunFailed
from trireme_network.input_shapes import InputShapes
from trireme_network.neighbours import Neighbours
from trireme_network.packed_segments import PackedSegments, Segment, SegmentRules, find_segments
from trireme_network.pieces import Batch, Piece, Requests, busy_share
from trireme_network.stacked_rows import StackedRows
from trireme_network.stream_pool import StreamPool

ITEM_S = 2e-7  # eight times what arranging an item of an input takes, before the first run and after the last
BUSY_SHARE = 0.8  # of the narrow streams' time that must be work, or the wide stream is the better choice


class Network:
    """A graph, ready to answer.

    `batches`: requests can run together, along the batch dimension. `segments`: how to find texts in rows, if requests
    may also share rows.
    """

    def __init__(
        self, pool: StreamPool, shapes: InputShapes, *, batches: bool, segments: SegmentRules | None = None
    ) -> None:
        self._pool = pool
        self._shapes = shapes
        self._batches = batches
        self._segments = segments
        self._neighbours = Neighbours()

    def answer(self, requests: Sequence[Inputs]) -> list[Answer]:
        """One answer per request. The answer to a request does not depend on the others, beyond float rounding."""
        with self._neighbours as crowded:
            fit, segments, answers = self._check(requests)
            if fit and self._batches:
                answers |= self._answer_together(fit, segments, crowded)
            return [
                answers[number] if number in answers else self._answer_alone(request)
                for number, request in enumerate(requests)
            ]

    def report_to(self, progress: Progress) -> None:
        """`progress` hears that an answer which takes long gets on."""
        self._pool.report_to(progress)

    def close(self) -> None:
        """End the worker threads."""
        self._pool.close()
        self._neighbours.close()

    def _check(self, requests: Sequence[Inputs]) -> tuple[Requests, list[Segment], dict[int, Answer]]:
        """The requests that can be computed, all their segments, and the refusals of the others."""
        fit: Requests = {}
        segments: list[Segment] = []
        refusals: dict[int, Answer] = {}
        items = 0
        for number, request in enumerate(requests):
            try:
                self._shapes.check(request)
                if self._segments:
                    segments += find_segments(number, request, self._segments)
                fit[number] = request
                items += sum([values.size for values in request.values()])
            except InvalidRequest as refusal:
                refusals[number] = refusal
        self._pool.allow(ITEM_S * items)
        return fit, segments, refusals

    def _answer_together(self, requests: Requests, segments: Sequence[Segment], crowded: bool) -> dict[int, Answer]:
        """The answers, without those that must run alone, since their piece failed or may have spoilt them."""
        batch, results = self._run(requests, segments, crowded)
        outputs: list[Outputs] = [{} if isinstance(result, RunFailed) else result for result in results]
        doubtful: set[int] = set()
        for piece, result in zip(batch.pieces, outputs, strict=True):
            if not result or (piece.is_rearranged and not _all_finite(result)):
                doubtful |= piece.requests
        answers = {number: batch.answer(number, outputs) for number in requests if number not in doubtful}
        return {number: answer for number, answer in answers.items() if answer is not None}

    def _run(
        self, requests: Requests, segments: Sequence[Segment], crowded: bool
    ) -> tuple[Batch, list[Outputs | RunFailed]]:
        """Side by side where the narrow streams have enough to do or the other cores are taken, else wide."""
        pool = self._pool
        if pool.streams and (crowded or pool.fills_machine):
            batch = self._arrange(requests, segments, pool.streams)
            if crowded or busy_share([piece.cost for piece in batch.pieces], pool.streams) >= BUSY_SHARE:
                return batch, pool.run_side_by_side(batch.pieces)
        batch = self._arrange(requests, segments, 1)
        return batch, pool.run_wide(batch.pieces)

    def _arrange(self, requests: Requests, segments: Sequence[Segment], streams: int) -> Batch:
        if self._segments:
            return PackedSegments(requests, self._segments, segments, streams)
        return StackedRows(requests, streams)

    def _answer_alone(self, request: Inputs) -> Answer:
        (result,) = self._pool.run_wide([Piece.alone(request)])
        if isinstance(result, RunFailed):
            inputs = ", ".join(f"{name!r} of shape {list(values.shape)}" for name, values in request.items())
            return InvalidRequest(f"the network cannot compute inputs {inputs}: {result}", reason="network")
        return result


def _all_finite(outputs: Outputs) -> bool:
    """NaN and infinity in one segment can spread to its row: 0 times NaN, the weight of a neighbour, is NaN.

    So can padding: a graph may make NaN of it.
    """
    return all(np.isfinite(values).all() for values in outputs.values() if values.dtype.kind == "f")
