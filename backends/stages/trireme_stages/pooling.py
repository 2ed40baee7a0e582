"""Pooling outside the network, for networks that give hidden states: one row per window."""

from __future__ import annotations

from typing import Literal

import numpy as np
from trireme_triton.tensors import Array, Inputs, InvalidRequest

from trireme_stages.segments import Windows, check_finite

Pooling = Literal["mean", "cls"]


def pool_hidden_states(inputs: Inputs, width: int, pooling: Pooling) -> Windows:
    """The mean of each window's tokens, or its first token, of one request.

    Its inputs are `hidden_states` (batch, length, width), `attention_mask` (batch, length) of segment numbers, and
    `windows`.

    Raises:
        InvalidRequest: the shapes do not fit each other or the model, the mask has other segments than `windows`, or
            a number is not finite.
    """
    hidden, mask, windows = inputs["hidden_states"], inputs["attention_mask"], inputs["windows"]
    if hidden.ndim != 3 or hidden.shape[2] != width or not hidden.shape[0] or mask.shape != hidden.shape[:2]:
        raise InvalidRequest(
            f"inputs 'hidden_states' and 'attention_mask' have shapes {list(hidden.shape)} and {list(mask.shape)}; "
            f"they must be [batch, length, {width}] and [batch, length]",
            reason="shape",
        )
    first = _first_tokens(mask)
    counts = first.sum(axis=1)
    if counts.min() < 1 or not np.array_equal(counts[:, None], windows):
        found = f"{counts[:8].tolist()} segments; input 'windows' says {windows.reshape(-1)[:8].tolist()}"
        raise InvalidRequest(f"input 'attention_mask' has {found}; both must agree, from 1 up", reason="shape")
    tokens = hidden[mask > 0]
    check_finite("input 'hidden_states'", tokens)
    starts = np.flatnonzero(first[mask > 0])
    if pooling == "cls":
        return Windows(rows=tokens[starts], counts=counts)
    lengths = np.diff(starts, append=len(tokens)).astype(np.float32)
    return Windows(rows=np.add.reduceat(tokens, starts, axis=0) / lengths[:, None], counts=counts)


def _first_tokens(mask: Array) -> Array:
    """(batch, length) of bool: whether a token is the first of its segment."""
    before = np.pad(mask[:, :-1], ((0, 0), (1, 0)))
    return (mask > 0) & (mask != before)  # type: ignore[no-any-return]
