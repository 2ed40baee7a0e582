"""The original of an image model, as its authors run it: Pillow, then PyTorch in fp32."""

from __future__ import annotations

import io

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import nn

from trireme_export.catalogue import ImageClassification

Pixels = NDArray[np.uint8]
_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


class ImageOriginal:
    """Image files to pixels to logits."""

    def __init__(self, classifier: nn.Module, task: ImageClassification) -> None:
        self._classifier = classifier
        self._task = task

    def pixels(self, file: bytes) -> Pixels:
        """(size, size, 3): the shorter side resized, the centre cut out, rounded as torchvision's transforms do."""
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB")
        shorter = int(self._task.size / self._task.crop)
        width, height = (int(shorter * side / min(image.size)) for side in image.size)
        resized = image.resize((width, height), _FILTERS[self._task.interpolation])
        left, top = round((width - self._task.size) / 2), round((height - self._task.size) / 2)
        return np.asarray(resized.crop((left, top, left + self._task.size, top + self._task.size)))

    def logits(self, pixels: Pixels) -> NDArray[np.float32]:
        """(batch, labels) of (batch, size, size, 3), each image alone."""
        return np.concatenate([self._one(image) for image in pixels])

    def _one(self, image: Pixels) -> NDArray[np.float32]:
        scaled = (image.astype(np.float64) / 255 - self._task.mean) / self._task.std
        tensor = torch.from_numpy(scaled.transpose(2, 0, 1)[None].astype(np.float32))
        with torch.inference_mode():
            return self._classifier(tensor).numpy()  # type: ignore[no-any-return]
