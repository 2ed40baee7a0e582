"""Where an artifact leaves its original: a comparison layer by layer. Pure NumPy; knows no graph and no PyTorch.

The layer named is the first, in the order of the graph, that is off by more than its precision explains while
everything that it reads is not, and that is at least `JUMP` times as far off as the worst of what it reads. Rounding
that only adds up makes no such jump: then the layer at which the sum passes the limit is said to be just that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

JUMP = 2.0


@dataclass(frozen=True, kw_only=True)
class LayerValues:
    """What one layer gives on both sides, number beside number: (n,), of any type."""

    name: str
    actual: NDArray[Any]
    expected: NDArray[Any]
    reads: tuple[str, ...]  # the nearest layers before it that are compared too


@dataclass(frozen=True, kw_only=True)
class LayerDifference:
    """How far a layer is off."""

    name: str
    max_abs: float
    relative: float  # max_abs as a share of the original's largest number in this layer; infinite for NaN
    cosine: float  # of all numbers of the layer together
    of_inputs: float  # the largest `relative` of what it reads


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """All layers in the order of the graph, and the limit that they were held against."""

    layers: tuple[LayerDifference, ...]
    limit: float  # of `relative`

    @property
    def first(self) -> LayerDifference | None:
        """The layer that leaves the original by itself; None: no layer does."""
        return next((each for each in self.layers if self._leaves(each)), None)

    @property
    def passing(self) -> LayerDifference | None:
        """The first layer beyond the limit, whether it got there by itself or by what it reads."""
        return next((each for each in self.layers if each.relative > self.limit), None)

    def _leaves(self, layer: LayerDifference) -> bool:
        inputs_agree = layer.of_inputs <= self.limit
        return layer.relative > self.limit and inputs_agree and layer.relative >= JUMP * layer.of_inputs


def compare_layers(layers: Iterable[LayerValues], limit: float) -> Divergence:
    """Compare one layer after the other; each must come after those that it reads."""
    found: dict[str, LayerDifference] = {}
    for layer in layers:
        of_inputs = max((found[name].relative for name in layer.reads), default=0.0)
        with np.errstate(invalid="ignore", over="ignore"):  # what is no number is found all the same
            found[layer.name] = _difference(layer, of_inputs)
    return Divergence(layers=tuple(found.values()), limit=limit)


def _difference(layer: LayerValues, of_inputs: float) -> LayerDifference:
    actual, expected = layer.actual.astype(np.float64), layer.expected.astype(np.float64)
    off = float(np.abs(actual - expected).max(initial=0))
    size = float(np.abs(expected).max(initial=0))
    norms = float(np.linalg.norm(actual) * np.linalg.norm(expected))
    return LayerDifference(
        name=layer.name,
        max_abs=off,
        relative=_share(off, size),
        cosine=float(actual @ expected) / norms if norms else float(off == 0),
        of_inputs=of_inputs,
    )


def _share(off: float, size: float) -> float:
    if off == 0:
        return 0.0
    return off / size if np.isfinite(off) and size else float("inf")
