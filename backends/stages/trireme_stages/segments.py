"""Rows of windows: what a text network gives for every text becomes one array, and one row per text again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from trireme_triton.tensors import Array, Inputs, InvalidRequest

Combine = Literal["mean", "max"]


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The windows of one or more texts. Every text has at least one."""

    rows: Array  # (all windows, width)
    counts: Array  # (texts,): windows of each text, neighbours in `rows`

    @property
    def starts(self) -> Array:
        """(texts,): where each text's windows begin in `rows`."""
        return np.cumsum(self.counts) - self.counts

    def combined(self, how: Combine) -> Array:
        """(texts, width): the mean of each text's windows, all with the same weight, or their largest values."""
        if len(self.rows) == len(self.counts):
            return self.rows
        if how == "max":
            return np.maximum.reduceat(self.rows, self.starts, axis=0)
        return np.add.reduceat(self.rows, self.starts, axis=0) / self.counts[:, None].astype(np.float32)


def read_windows(name: str, inputs: Inputs, width: int) -> Windows:
    """The tensor `name` of one request, (batch, segments, width), without rows of absent segments.

    Raises:
        InvalidRequest: the shapes do not fit each other or the model, a text has no window or more than segments, or
            a number is not finite.
    """
    rows, windows = inputs[name], inputs["windows"]
    if rows.ndim != 3 or rows.shape[2] != width or not rows.shape[0]:
        raise InvalidRequest(
            f"input {name!r} has shape {list(rows.shape)}; it must be [batch, windows, {width}]", reason="shape"
        )
    if not _are_counts(windows, *rows.shape[:2]):
        found = f"{windows.reshape(-1)[:8].tolist()} in shape {list(windows.shape)}"
        allowed = f"one number from 1 to {rows.shape[1]} for each of {len(rows)} texts"
        raise InvalidRequest(f"input 'windows' is {found}; it must be {allowed}", reason="shape")
    kept = rows[:, 0] if rows.shape[1] == 1 else rows[np.arange(rows.shape[1]) < windows]
    check_finite(f"input {name!r}", kept)
    return Windows(rows=kept, counts=windows[:, 0])


def read_vectors(name: str, inputs: Inputs, width: int) -> Windows:
    """The tensor `name` of one request, (batch, width): one vector for each.

    Raises:
        InvalidRequest: the shape does not fit the model, or a number is not finite.
    """
    rows = inputs[name]
    if rows.ndim != 2 or rows.shape[1] != width or not rows.shape[0]:
        raise InvalidRequest(
            f"input {name!r} has shape {list(rows.shape)}; it must be [batch, {width}]", reason="shape"
        )
    check_finite(f"input {name!r}", rows)
    return Windows(rows=rows, counts=np.ones(len(rows), np.int32))


def check_finite(what: str, numbers: Array) -> None:
    """What a network gives is answered with only if it is finite: of NaN any label could be made.

    Raises:
        InvalidRequest: a number is NaN or infinite.
    """
    if not np.isfinite(numbers).all():
        raise InvalidRequest(f"{what}: not every number is finite", reason="network")


def _are_counts(windows: Array, texts: int, most: int) -> bool:
    if windows.shape != (texts, 1):
        return False
    if texts == 1:
        return 1 <= int(windows[0, 0]) <= most  # much cheaper than asking NumPy for the extremes of one number
    return bool(windows.min() >= 1 and windows.max() <= most)


def joined(requests: Sequence[Windows]) -> Windows:
    """The windows of many requests as one."""
    return Windows(
        rows=np.concatenate([request.rows for request in requests]),
        counts=np.concatenate([request.counts for request in requests]),
    )


def split_requests(requests: Sequence[Windows], *arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Each request's own rows of arrays that have one row for each text of all requests."""
    end = 0
    for request in requests:
        begin, end = end, end + len(request.counts)
        yield tuple(array[begin:end] for array in arrays)
