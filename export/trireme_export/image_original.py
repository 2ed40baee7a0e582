"""The original of an image model, as its authors run it: an image processor on Pillow, then PyTorch in fp32."""

from __future__ import annotations

import io
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import nn

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]


class ImageProcessor(Protocol):
    """What the model's authors do with an upright RGB image, in two parts."""

    def pixels(self, image: Image.Image) -> Pixels:
        """(size, size, 3): resized and cropped."""
        ...

    def planes(self, pixels: Pixels) -> Floats:
        """(3, size, size): normalised."""
        ...


class ImageOriginal:
    """Image files to pixels to logits or vectors."""

    def __init__(self, model: nn.Module, processor: ImageProcessor) -> None:
        self.model = model
        self._processor = processor

    def pixels(self, file: bytes) -> Pixels:
        """(size, size, 3)."""
        image: Any = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
        return self._processor.pixels(image.convert("RGB"))

    def rows(self, pixels: Pixels) -> Floats:
        """(batch, columns) of (batch, size, size, 3), each image alone."""
        return np.concatenate([self._one(image) for image in pixels])

    def _one(self, pixels: Pixels) -> Floats:
        with torch.inference_mode():
            return self.model(torch.from_numpy(self._processor.planes(pixels))[None]).numpy()  # type: ignore[no-any-return]
