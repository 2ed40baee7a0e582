"""Inputs for first runs at load, so that the first request does not pay for them. Knows which shapes are likely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from trireme_triton.tensors import Array, Inputs

from trireme_network.graph import ANY
from trireme_network.model_config import TensorConfig
from trireme_network.tensor_types import NUMPY_TYPES

_TEXTS = ((1, 16), (1, 64), (1, 128), (4, 128))  # rows, tokens


def text_inputs(inputs: Sequence[TensorConfig], segments: str) -> Iterator[Inputs]:
    """Rows of tokens with the id 0, one segment each."""
    for shape in _TEXTS:
        yield {tensor.name: np.full(shape, tensor.name == segments, NUMPY_TYPES[tensor.data_type]) for tensor in inputs}


def zero_inputs(inputs: Sequence[TensorConfig], rows: Sequence[tuple[int, ...]]) -> Iterator[Inputs]:
    """Zeros (or empty strings) for batches of these sizes; nothing if a dimension may be anything.

    `rows` are shapes in front of the dims: `(4,)` for a batch of four, `()` where there is no batch dimension.
    """
    if any(ANY in tensor.dims for tensor in inputs):
        return
    for batch in rows:
        yield {tensor.name: _zeros(tensor.data_type, batch + tensor.dims) for tensor in inputs if not tensor.optional}


def _zeros(data_type: str, shape: tuple[int, ...]) -> Array:
    if data_type == "TYPE_STRING":
        return np.full(shape, b"", dtype=np.object_)
    return np.zeros(shape, NUMPY_TYPES[data_type])
