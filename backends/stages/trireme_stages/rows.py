"""The windows of texts become rows of one length: a request's tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from trireme_triton.tensors import Array

Row = Sequence[Sequence[int]]  # a text's windows, of ids


def padded_rows(rows: Sequence[Row], pad_id: int, multiple: int) -> dict[str, Array]:
    """`input_ids` and `attention_mask`, (rows, length), and `windows`, (rows, 1).

    A text's windows lie side by side in its row, numbered 1, 2, ... in the mask. The length is that of the longest row,
    rounded up to a `multiple`.
    """
    length = -(-max(sum(map(len, row)) for row in rows) // multiple) * multiple
    attention_mask = np.zeros((len(rows), length), np.int64)
    for row, mask in zip(rows, attention_mask, strict=True):
        end = 0
        for number, window in enumerate(row, start=1):
            begin, end = end, end + len(window)
            mask[begin:end] = number
    windows = np.array([[len(row)] for row in rows], np.int32)
    return {"input_ids": padded(rows, length, pad_id), "attention_mask": attention_mask, "windows": windows}


def padded(rows: Sequence[Row], length: int, value: int) -> Array:
    """(rows, length), INT64: each row's windows side by side, then `value`."""
    array = np.full((len(rows), length), value, np.int64)
    for row, place in zip(rows, array, strict=True):
        end = 0
        for window in row:
            begin, end = end, end + len(window)
            place[begin:end] = window
    return array
