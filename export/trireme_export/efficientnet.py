"""EfficientNet-Lite as data and one module. For inference: no dropout, no stochastic depth.

The architecture is that of EfficientNet (Tan and Le, 2019, arXiv:1905.11946) without squeeze-and-excitation and with
ReLU6 for swish, as Google published it for mobile devices in 2020. Convolutions pad as TensorFlow's `SAME` does.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

STEM_CHANNELS, HEAD_CHANNELS = 32, 1280
NORM_EPSILON = 1e-3


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A run of blocks; only the first one strides and changes the number of channels."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int


STAGES = (
    Stage(repeats=1, kernel=3, stride=1, expansion=1, channels=16),
    Stage(repeats=2, kernel=3, stride=2, expansion=6, channels=24),
    Stage(repeats=2, kernel=5, stride=2, expansion=6, channels=40),
    Stage(repeats=3, kernel=3, stride=2, expansion=6, channels=80),
    Stage(repeats=3, kernel=5, stride=1, expansion=6, channels=112),
    Stage(repeats=4, kernel=5, stride=2, expansion=6, channels=192),
    Stage(repeats=1, kernel=3, stride=1, expansion=6, channels=320),
)


class EfficientNetLite(nn.Module):
    """Normalised images (batch, 3, height, width) to logits (batch, labels).

    `width` and `depth` multiply channels and repeats: 1.0 and 1.0 for Lite0. In every Lite the stem and the head keep
    their width, and the first and the last stage their depth.
    """

    def __init__(self, *, width: float, depth: float, labels: int) -> None:
        super().__init__()
        self.stem = _convolution(3, STEM_CHANNELS, kernel=3, stride=2)
        self.blocks = nn.Sequential(*_blocks(width, depth))
        last = _scaled_channels(STAGES[-1].channels, width)
        self.head = _convolution(last, HEAD_CHANNELS, kernel=1)
        self.classifier = nn.Linear(HEAD_CHANNELS, labels)

    def forward(self, images: Tensor) -> Tensor:
        features = self.head(self.blocks(self.stem(images)))
        logits: Tensor = self.classifier(features.mean(dim=(2, 3)))
        return logits


class InvertedBottleneck(nn.Module):
    """Expand, filter each channel, project; the input is added where shapes allow."""

    def __init__(self, inputs: int, stage: Stage, outputs: int, stride: int) -> None:
        super().__init__()
        expanded = inputs * stage.expansion
        self.expand = _convolution(inputs, expanded, kernel=1) if stage.expansion > 1 else nn.Identity()
        self.depthwise = _convolution(expanded, expanded, kernel=stage.kernel, stride=stride, groups=expanded)
        self.project = _convolution(expanded, outputs, kernel=1, activation=False)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, features: Tensor) -> Tensor:
        projected: Tensor = self.project(self.depthwise(self.expand(features)))
        return features + projected if self.is_residual else projected


class SamePadding(nn.Module):
    """Zeros around the image so that a strided convolution gives ceil(size / stride); the odd one goes last."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride

    def forward(self, features: Tensor) -> Tensor:
        height, width = (self._padding(size) for size in features.shape[2:])
        return functional.pad(features, (width // 2, width - width // 2, height // 2, height - height // 2))

    def _padding(self, size: int) -> int:
        return max((math.ceil(size / self.stride) - 1) * self.stride + self.kernel - size, 0)


def _convolution(  # noqa: PLR0913 - what a convolution is
    inputs: int, outputs: int, *, kernel: int, stride: int = 1, groups: int = 1, activation: bool = True
) -> nn.Sequential:
    padding = SamePadding(kernel, stride) if stride > 1 else nn.Identity()
    inner = 0 if stride > 1 else kernel // 2
    layers = {
        "padding": padding,
        "weights": nn.Conv2d(inputs, outputs, kernel, stride, inner, groups=groups, bias=False),
        "norm": nn.BatchNorm2d(outputs, eps=NORM_EPSILON),
        "activation": nn.ReLU6() if activation else nn.Identity(),
    }
    return nn.Sequential(OrderedDict(layers))


def _blocks(width: float, depth: float) -> Iterator[InvertedBottleneck]:
    inputs = STEM_CHANNELS
    for number, stage in enumerate(STAGES):
        outputs = _scaled_channels(stage.channels, width)
        fixed = number in (0, len(STAGES) - 1)
        for index in range(stage.repeats if fixed else math.ceil(stage.repeats * depth)):
            yield InvertedBottleneck(inputs, stage, outputs, stage.stride if index == 0 else 1)
            inputs = outputs


def _scaled_channels(channels: int, width: float) -> int:
    """Rounded to a multiple of 8, but never by more than a tenth down."""
    scaled = channels * width
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * scaled else rounded
