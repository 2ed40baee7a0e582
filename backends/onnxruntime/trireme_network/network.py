"""Answers requests with a graph: arranges what is waiting, runs it, and lets no request suffer from another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from trireme_triton.tensors import Answer, Inputs, InvalidRequest, Outputs

from trireme_network.graph import RunFailed
from trireme_network.neighbours import Neighbours
from trireme_network.packed_segments import PackedSegments, segments_refusal
from trireme_network.pieces import Batch, busy_share
from trireme_network.stacked_rows import StackedRows
from trireme_network.stream_pool import StreamPool

BUSY_SHARE = 0.8  # of the narrow streams' time that must be work, or the wide stream is the better choice


class Network:
    """A graph, ready to answer.

    `batches`: the graph has a batch dimension, so requests can run together. `segments`: the input that carries segment
    numbers, if requests may also share rows.
    """

    def __init__(self, pool: StreamPool, *, batches: bool, segments: str | None = None) -> None:
        self._pool = pool
        self._batches = batches
        self._segments = segments
        self._neighbours = Neighbours()

    def answer(self, requests: Sequence[Inputs]) -> list[Answer]:
        """One answer per request. The answer to a request does not depend on the others, beyond float rounding."""
        with self._neighbours.computing() as crowded:
            answers: list[Answer | None] = [self._refusal(request) for request in requests]
            fit = [number for number, answer in enumerate(answers) if answer is None]
            if fit and self._batches:
                together = self._answer_together([requests[number] for number in fit], crowded)
                for number, answer in zip(fit, together, strict=True):
                    answers[number] = answer
            return [
                self._answer_alone(request) if answer is None else answer
                for answer, request in zip(answers, requests, strict=True)
            ]

    def on_progress(self, report: Callable[[], None]) -> None:
        """`report` is called now and then while an answer takes long."""
        self._pool.on_progress(report)

    def close(self) -> None:
        """End the worker threads."""
        self._pool.close()
        self._neighbours.close()

    def _refusal(self, request: Inputs) -> InvalidRequest | None:
        """Why no graph computes this request rightly, if so: runtimes answer empty tensors with NaN."""
        for name, values in request.items():
            if not values.size:
                return InvalidRequest(
                    f"input {name!r} has shape {list(values.shape)}; every dimension must be at least 1", reason="shape"
                )
        return segments_refusal(request, self._segments) if self._segments else None

    def _answer_together(self, requests: Sequence[Inputs], crowded: bool) -> list[Answer | None]:
        """An answer per request; `None` for one that must run alone, since its piece failed or may have spoilt it."""
        batch, results = self._run(requests, crowded)
        outputs: list[Outputs] = [{} if isinstance(result, RunFailed) else result for result in results]
        doubtful = {
            request
            for piece, result in zip(batch.pieces, outputs, strict=True)
            if not result or (self._segments and not _all_finite(result))
            for request in piece.requests
        }
        return [None if number in doubtful else batch.answer(number, outputs) for number in range(len(requests))]

    def _run(self, requests: Sequence[Inputs], crowded: bool) -> tuple[Batch, list[Outputs | RunFailed]]:
        """Side by side where the narrow streams have enough to do or the other cores are taken, else wide."""
        pool = self._pool
        if pool.streams and (crowded or pool.fills_machine):
            batch = self._arrange(requests, pool.streams)
            if crowded or busy_share([piece.cost for piece in batch.pieces], pool.streams) >= BUSY_SHARE:
                return batch, pool.run_side_by_side([piece.inputs for piece in batch.pieces])
        batch = self._arrange(requests, 1)
        return batch, pool.run_wide([piece.inputs for piece in batch.pieces])

    def _arrange(self, requests: Sequence[Inputs], streams: int) -> Batch:
        return PackedSegments(requests, self._segments, streams) if self._segments else StackedRows(requests, streams)

    def _answer_alone(self, request: Inputs) -> Answer:
        (result,) = self._pool.run_wide([request])
        if isinstance(result, RunFailed):
            return InvalidRequest(f"the network cannot compute this input: {result}", reason="network")
        return result


def _all_finite(outputs: Outputs) -> bool:
    """NaN and infinity in one segment can spread to its row: 0 times NaN, the weight of a neighbour, is NaN."""
    return all(np.isfinite(values).all() for values in outputs.values() if np.issubdtype(values.dtype, np.floating))
