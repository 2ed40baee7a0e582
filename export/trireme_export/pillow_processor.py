"""Preprocessing that is known as data, written out with Pillow and NumPy, as torchvision's transforms do it."""

from __future__ import annotations

import numpy as np
from PIL import Image

from trireme_export.image_original import Floats, Pixels
from trireme_export.image_preprocessing import Preprocessing


class PillowProcessor:
    """Everything is resized, then the centre is cut out; the numbers are made in float64."""

    def __init__(self, preprocessing: Preprocessing) -> None:
        self._preprocessing = preprocessing

    def pixels(self, image: Image.Image) -> Pixels:
        """(size, size, 3): resized and cropped."""
        own = self._preprocessing
        sides = [own.resize, own.resize]
        if own.fit == "shorter_side":
            sides = [int(own.resize * side / min(image.size)) for side in image.size]
        resized = image.resize((sides[0], sides[1]), Image.Resampling[own.interpolation.upper()])
        rest = [side - own.size for side in sides]
        left, top = [round(each / 2) if own.crop_offset == "round" else each // 2 for each in rest]
        return np.asarray(resized.crop((left, top, left + own.size, top + own.size)))

    def planes(self, pixels: Pixels) -> Floats:
        """(3, size, size): normalised."""
        own = self._preprocessing.normalization
        scaled = pixels.astype(np.float64) * own.scale + own.shift
        return scaled.transpose(2, 0, 1).astype(np.float32)
