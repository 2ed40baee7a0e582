"""What plain numpy makes of an original's logits and vectors: probabilities and directions."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trireme_export.errors import CheckpointRefused

Floats = NDArray[np.float64]


def probabilities(logits: Floats, function: Literal["softmax", "sigmoid"]) -> Floats:
    """Of the last dimension together, or of every number by itself."""
    return softmax(logits) if function == "softmax" else sigmoid(logits)


def softmax(logits: Floats) -> Floats:
    """Probabilities, over the last dimension."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


def sigmoid(logits: Floats) -> Floats:
    """Of any number: no power overflows."""
    return np.exp(-np.logaddexp(0, -logits))  # type: ignore[no-any-return]


def lengths_of(vectors: Floats) -> Floats:
    """(rows, D) -> (rows, 1).

    Raises:
        CheckpointRefused: a vector has no direction.
    """
    lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not lengths.all():
        raise CheckpointRefused("the original gives a vector of nothing but zeros, which has no direction to compare")
    return lengths
