"""The graph that serves an image model: bytes of pixels in, logits or a vector out; it normalises by itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trireme_export.image_preprocessing import Normalization


class ImageNetwork(nn.Module):
    """`pixels` (batch, height, width, 3) of uint8 to what `model` makes of normalised images: (batch, columns)."""

    scale: Tensor
    shift: Tensor

    def __init__(self, model: nn.Module, normalization: Normalization) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("scale", torch.tensor(normalization.scale).reshape(1, 3, 1, 1))
        self.register_buffer("shift", torch.tensor(normalization.shift).reshape(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        images = pixels.permute(0, 3, 1, 2).float()
        rows: Tensor = self.model(images * self.scale + self.shift)
        return rows
