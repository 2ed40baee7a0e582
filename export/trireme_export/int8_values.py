"""Numbers in 8 bits: scales of weights and activations, and how the two share what is hard to round. Plain numpy.

Weights have a scale for every output channel, and 7 bits: where a CPU has no VNNI, two products of an unsigned and a
signed byte are added in 16 bits with saturation, which 2 * 255 * 63 = 32130 fits and 2 * 255 * 127 does not.
Activations have one scale each. The few channels of a transformer's activations that are far larger than the others
would leave these few steps; so a channel may be divided by a factor and its row of the weights multiplied by it, as in
SmoothQuant (Xiao et al., 2022, arXiv:2211.10438); the exponent is the one with the least error on the samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

WEIGHT_LIMIT = 63  # of the 7 bits, alike on both sides
EXPONENTS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9)  # 0: nothing is moved
_SMALLEST = 1e-5  # of a channel that is always zero

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class QuantizedWeight:
    """`values` * `scales` along one axis is the weight."""

    values: NDArray[np.int8]
    scales: Floats


@dataclass(frozen=True)
class ActivationScale:
    """(q - zero) * scale is the number; signed: -127 to 127 about 0, unsigned: 0 to 255."""

    scale: np.float32
    zero: np.int8 | np.uint8

    def rounded(self, values: NDArray[Any]) -> NDArray[Any]:
        """What is left of them."""
        limits = np.iinfo(self.zero.dtype)
        steps = np.rint(values / self.scale) + float(self.zero)
        rounded: NDArray[Any] = (np.clip(steps, limits.min, limits.max) - float(self.zero)) * self.scale
        return rounded


@dataclass(frozen=True)
class Activation:
    """What samples say of a value with channels."""

    rows: Floats  # (some, channels)
    mean: Floats  # (channels,), of the samples' means, also of rows that are not kept
    low: Floats  # as high over all rows
    high: Floats

    @property
    def range(self) -> tuple[float, float]:
        """Of all channels."""
        return float(self.low.min()), float(self.high.max())

    def widened(self, other: Activation) -> Activation:
        """For what other samples reach, too."""
        return replace(self, low=np.minimum(self.low, other.low), high=np.maximum(self.high, other.high))


def quantize_weight(weight: NDArray[Any], axis: int) -> QuantizedWeight:
    """A scale for every index of `axis`, and 7 bits."""
    others = tuple(each for each in range(weight.ndim) if each != axis)
    scales = np.abs(weight).max(axis=others, keepdims=True).astype(np.float32) / WEIGHT_LIMIT
    scales[scales == 0] = 1  # of a channel of zeros
    values = np.clip(np.rint(weight / scales), -WEIGHT_LIMIT, WEIGHT_LIMIT).astype(np.int8)
    return QuantizedWeight(values, scales.reshape(-1))


def activation_scale(low: float, high: float, *, signed: bool) -> ActivationScale:
    """The range, with 0 in it, which padding and ReLU give: it must be exact."""
    low, high = min(low, 0.0), max(high, 0.0)
    if signed:
        return ActivationScale(np.float32((max(-low, high) or 1.0) / 127), np.int8(0))
    scale = np.float32((high - low or 1.0) / 255)
    return ActivationScale(scale, np.uint8(np.rint(-low / scale)))


def mean_error(weight: NDArray[Any], quantized: QuantizedWeight, axis: int, mean: Floats, groups: int) -> Floats:
    """By how much rounding the weight moves every output in the mean (outputs,), for inputs of this mean (channels,).

    It is taken back in the bias (Nagel et al., 2019, arXiv:1906.04721). `weight` is (outputs, channels of a group, ...)
    with axis 0, or (channels, outputs) with axis 1.
    """
    scales = quantized.scales.reshape([-1 if each == axis else 1 for each in range(weight.ndim)])
    lost = weight - quantized.values * scales
    if axis == 1:
        return mean @ lost  # type: ignore[no-any-return]
    lost = lost.reshape(*lost.shape[:2], -1).sum(axis=2).reshape(groups, -1, weight.shape[1])
    return np.einsum("goc,gc->go", lost, mean.reshape(groups, -1)).reshape(-1).astype(np.float32)  # type: ignore[no-any-return]


def balance(activation: Activation, weight: Floats, *, signed: bool) -> Floats | None:
    """Factors (channels,) to divide the activation by, and to multiply the rows of `weight` (channels, outputs) by.

    None: as they are is best.
    """
    expected = activation.rows @ weight
    errors = []
    for exponent in EXPONENTS:
        factors = _factors(activation, weight, exponent)
        scale = activation_scale(*balanced_range(activation, factors), signed=signed)
        scaled = quantize_weight(weight * factors[:, None], axis=1)
        product = scale.rounded(activation.rows / factors) @ (scaled.values * scaled.scales)
        errors.append(float(np.square(product - expected).sum()))
    best = EXPONENTS[int(np.argmin(errors))]
    return _factors(activation, weight, best) if best else None


def balanced_range(activation: Activation, factors: Floats) -> tuple[float, float]:
    """Of the activation divided by its factors."""
    return float((activation.low / factors).min()), float((activation.high / factors).max())


def _factors(activation: Activation, weight: Floats, exponent: float) -> Floats:
    if not exponent:
        return np.ones(len(weight), np.float32)
    peaks = np.maximum(np.maximum(-activation.low, activation.high), _SMALLEST)
    sizes = np.maximum(np.abs(weight).max(axis=1), _SMALLEST)
    factors = peaks**exponent / sizes ** (1 - exponent)
    even: Floats = (factors / np.exp(np.log(factors).mean())).astype(np.float32)
    return even
