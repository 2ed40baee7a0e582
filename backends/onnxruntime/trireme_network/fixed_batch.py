"""Batches of exactly N rows, which is all that the official openvino backend takes with `max_batch_size: N`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from trireme_triton.progress import Progress
from trireme_triton.tensors import Answer, Array, Inputs, InvalidRequest, Outputs, or_refusal

from trireme_network.input_shapes import InputShapes
from trireme_network.network import Network


class FixedBatch:
    """A network in front of which every request has `rows` rows; `pads`: shorter requests are filled up with zeros."""

    def __init__(self, network: Network, shapes: InputShapes, rows: int, *, pads: bool) -> None:
        self._network = network
        self._shapes = shapes
        self._rows = rows
        self._pads = pads

    def answer(self, requests: Sequence[Inputs]) -> list[Answer]:
        """One answer per request."""
        return [or_refusal(self._answer, request) for request in requests]

    def report_to(self, progress: Progress) -> None:
        """`progress` hears that an answer which takes long gets on."""
        self._network.report_to(progress)

    def close(self) -> None:
        """End the worker threads."""
        self._network.close()

    def _answer(self, request: Inputs) -> Outputs:
        self._shapes.check(request)
        rows = len(next(iter(request.values())))
        missing = self._rows - rows
        if missing and not self._pads:
            raise InvalidRequest(
                f"the batch has {rows} rows; this model takes exactly {self._rows} "
                "(the parameter ENABLE_BATCH_PADDING = YES lets it take fewer, at the cost of a full batch)",
                reason="shape",
            )
        (answer,) = self._network.answer([{name: _padded(values, missing) for name, values in request.items()}])
        if isinstance(answer, InvalidRequest):
            raise answer
        return {name: item[:rows] for name, item in answer.items()}


def _padded(values: Array, missing: int) -> Array:
    return np.pad(values, [(0, missing)] + [(0, 0)] * (values.ndim - 1)) if missing else values
