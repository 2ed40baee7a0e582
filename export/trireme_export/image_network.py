"""The graph that serves an image classifier: bytes of pixels in, logits out; it normalises by itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ImageNetwork(nn.Module):
    """`pixels` (batch, height, width, 3) of uint8 to logits (batch, labels).

    `mean` and `std` are for red, green and blue on a scale from 0 to 1.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, classifier: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.classifier = classifier
        deviation = torch.tensor(std, dtype=torch.float64)
        shift = -torch.tensor(mean, dtype=torch.float64) / deviation
        self.register_buffer("scale", (1 / (255 * deviation)).float().reshape(1, 3, 1, 1))
        self.register_buffer("shift", shift.float().reshape(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        images = pixels.permute(0, 3, 1, 2).float()
        logits: Tensor = self.classifier(images * self.scale + self.shift)
        return logits
