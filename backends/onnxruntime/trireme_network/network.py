"""Answers requests with a graph: arranges what is waiting, runs it, and lets no request suffer from another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from trireme_triton.tensors import Inputs, InvalidRequest, Outputs

from trireme_network.graph import RunFailed
from trireme_network.packed_segments import PackedSegments, segments_refusal
from trireme_network.pieces import Batch
from trireme_network.stacked_rows import StackedRows
from trireme_network.stream_pool import StreamPool

Answer = Outputs | InvalidRequest


class Network:
    """A graph, ready to answer.

    `batches`: the graph has a batch dimension, so requests can run together. `segments`: the input that carries segment
    numbers, if requests may also share rows.
    """

    def __init__(self, pool: StreamPool, *, batches: bool, segments: str | None = None) -> None:
        self._pool = pool
        self._batches = batches
        self._segments = segments

    def answer(self, requests: Sequence[Inputs]) -> list[Answer]:
        """One answer per request. The answer to a request does not depend on the others, beyond float rounding."""
        answers: list[Answer | None] = [self._refusal(request) for request in requests]
        mixable = [number for number, answer in enumerate(answers) if answer is None and self._mixes(requests[number])]
        if mixable:
            together = self._answer_together([requests[number] for number in mixable])
            for number, answer in zip(mixable, together, strict=True):
                answers[number] = answer
        return [
            self._answer_alone(request) if answer is None else answer
            for answer, request in zip(answers, requests, strict=True)
        ]

    def close(self) -> None:
        """End the worker threads."""
        self._pool.close()

    def _refusal(self, request: Inputs) -> InvalidRequest | None:
        """Why no graph computes this request rightly, if so: runtimes answer empty tensors with NaN."""
        for name, values in request.items():
            if not values.size:
                return InvalidRequest(
                    f"input {name!r} has shape {list(values.shape)}; every dimension must be at least 1", reason="shape"
                )
        return segments_refusal(request, self._segments) if self._segments else None

    def _mixes(self, request: Inputs) -> bool:
        """Whether this request can run with others."""
        return self._batches and (self._segments is None or request[self._segments].max() >= 1)

    def _answer_together(self, requests: Sequence[Inputs]) -> list[Answer | None]:
        """An answer per request, `None` for those whose piece failed or gave what it may have from a neighbour."""
        batch: Batch
        if self._segments:
            batch = PackedSegments(requests, self._segments, self._pool.count)
        else:
            batch = StackedRows(requests, self._pool.count)
        results = self._pool.run([piece.inputs for piece in batch.pieces], side_by_side=batch.side_by_side)
        outputs: list[Outputs] = [{} if isinstance(result, RunFailed) else result for result in results]
        doubtful = {
            request
            for piece, result in zip(batch.pieces, outputs, strict=True)
            if not result or (self._segments and not _all_finite(result))
            for request in piece.requests
        }
        return [None if number in doubtful else batch.answer(number, outputs) for number in range(len(requests))]

    def _answer_alone(self, request: Inputs) -> Answer:
        (result,) = self._pool.run([request], side_by_side=False)
        if isinstance(result, RunFailed):
            return InvalidRequest(f"the network cannot compute this input: {result}", reason="network")
        return result


def _all_finite(outputs: Outputs) -> bool:
    """NaN and infinity in one segment can spread to its row: 0 times NaN, the weight of a neighbour, is NaN."""
    return all(np.isfinite(values).all() for values in outputs.values() if np.issubdtype(values.dtype, np.floating))
