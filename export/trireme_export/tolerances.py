"""How far the answers of each precision may be from the original's, by task. Data, and the two figures it takes.

The bounds are on what the network gives: vectors, or logits. A share is of the largest number that the original gives
in any of the cases, since 16 and 8 bits err in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trireme_export.assembly import Array, Tolerance
from trireme_export.kinds import Precision

TIE = 0.01  # a share as well: two labels whose logits the original itself sets so near are as good as each other
_FEWEST_RANKED = 4  # rows of a case; with fewer, a correlation is chance

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Of one precision."""

    max_share: float
    min_cosine: float  # of a vector; of logits, which may lie around zero, it says little
    min_top1: float
    min_rank_correlation: float


BOUNDS: Mapping[Precision, Bounds] = {
    "fp16": Bounds(max_share=0.01, min_cosine=0.9999, min_top1=1.0, min_rank_correlation=0.999),
    "bf16": Bounds(max_share=0.04, min_cosine=0.999, min_top1=0.98, min_rank_correlation=0.99),
    "int8": Bounds(max_share=0.25, min_cosine=0.97, min_top1=0.95, min_rank_correlation=0.9),
}
LAYER_SHARE_FP32 = 1e-4  # what another order of adding does to a layer, ten times over
_VECTORS = frozenset({"sentence-embedding", "image-embedding"})


def tolerance_of(task: str, precision: Precision, fp32: Tolerance, largest: float) -> Tolerance:
    """What `precision` may do to a network of `task`, whose tolerance in fp32 is given; `largest` is its scale."""
    if precision == "fp32":
        return fp32
    bounds = BOUNDS[precision]
    ranks = task == "reranking" or task in _VECTORS
    return Tolerance(
        max_abs=bounds.max_share * largest,
        min_cosine=bounds.min_cosine if task in _VECTORS else -1,
        min_top1=None if ranks else bounds.min_top1,
        min_rank_correlation=bounds.min_rank_correlation if ranks else None,
    )


def layer_share(precision: Precision) -> float:
    """How far a layer inside the network may be off: a share of the largest number that the original gives there."""
    return LAYER_SHARE_FP32 if precision == "fp32" else BOUNDS[precision].max_share


def top1_agreement(actual: Array, expected: Array, tie: float) -> float:
    """Share of the rows (rows, labels) whose best label is one that the original sets within `tie` of its best.

    Rows of zeros are padding, and do not count.
    """
    filled = np.abs(expected).max(axis=1) > 0
    rows, wanted = actual[filled], expected[filled]
    given = np.take_along_axis(wanted, rows.argmax(axis=1)[:, None], axis=1)[:, 0]
    return float(np.mean(wanted.max(axis=1) - given <= tie))


def rank_correlation(actual: Array, expected: Array) -> float:
    """Spearman's of the scores (rows, 1), or of how alike each two of the vectors (rows, D) are; 1 of too few rows."""
    wanted = expected.reshape(-1, expected.shape[-1]).astype(np.float64)
    filled = np.abs(wanted).max(axis=1) > 0
    if filled.sum() < _FEWEST_RANKED:
        return 1.0
    rows = actual.reshape(-1, actual.shape[-1]).astype(np.float64)[filled]
    first, second = _ranks(_ordered(rows)), _ranks(_ordered(wanted[filled]))
    return float(np.corrcoef(first, second)[0, 1])


def _ordered(rows: Floats) -> Floats:
    """What is ranked: the scores, or the cosine of every pair."""
    if rows.shape[1] == 1:
        return rows[:, 0]
    directions = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    return (directions @ directions.T)[np.triu_indices(len(rows), 1)]  # type: ignore[no-any-return]


def _ranks(values: Sequence[float] | Floats) -> Floats:
    """Equal values share the mean of their places."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[places]
