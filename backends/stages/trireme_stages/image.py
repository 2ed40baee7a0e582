"""The stage `image`: image files become the square of pixels that a vision network takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from PIL import Image
from trireme_triton.parameters import InvalidParameter, parameter
from trireme_triton.tensors import Answer, Array, Inputs, InvalidRequest, bytes_column, or_refusal

from trireme_stages.decoding import Decoded, decode
from trireme_stages.stage import Model, Signature, answer_parsed

LONGEST_S = 5.0  # to decode one image; the slowest of 25 million pixels takes a fifth of that on two cores
_FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


@dataclass(frozen=True, kw_only=True)
class ImageParameters:
    """The shorter side is resized to `size / crop`, then the square of `size` in the middle is kept.

    `mean` and `std`, for red, green and blue on a scale from 0 to 1, belong to `dtype` float32; for uint8 the network
    normalises. `min_scale` bounds the reduced scale at which a large JPEG is decoded: its shorter side keeps at least
    so many times the pixels of the resized one.
    """

    size: int = parameter(minimum=1, maximum=4096)
    crop: float = parameter(1.0, minimum=0.1, maximum=1)
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"
    dtype: Literal["uint8", "float32"] = "uint8"
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = parameter(None, minimum=1e-6)
    max_pixels: int = parameter(25_000_000, minimum=1)
    max_bytes: int = parameter(20_000_000, minimum=1)
    min_scale: float = parameter(2.0, minimum=1)
    threads: int = parameter(2, key="trireme.threads", minimum=1)

    def __post_init__(self) -> None:
        if {self.mean is None, self.std is None} != {self.dtype == "uint8"}:
            raise InvalidParameter("parameters 'mean' and 'std' are both needed for dtype float32, and only for it")

    @property
    def shorter_side(self) -> int:
        """Pixels of the shorter side before the crop."""
        return math.floor(self.size / self.crop)

    def signature(self) -> Signature:
        """Bytes as uint8, rows of pixels; float32 as three planes."""
        dims = (self.size, self.size, 3) if self.dtype == "uint8" else (3, self.size, self.size)
        data_type = "TYPE_UINT8" if self.dtype == "uint8" else "TYPE_FP32"
        return Signature(inputs={"image": ("TYPE_STRING", (1,))}, outputs={"pixels": (data_type, dims)})


class PreprocessImage:
    """Images of one call are decoded side by side in threads: Pillow works outside the interpreter's lock."""

    Parameters = ImageParameters

    def __init__(self, parameters: ImageParameters, model: Model) -> None:
        self._parameters = parameters
        self._progress = model.progress
        self._progress.allow(LONGEST_S)
        self._normalized = _normalized_values(parameters)
        self._threads = ThreadPoolExecutor(parameters.threads) if parameters.threads > 1 else None

    def answer(self, batch: Sequence[Inputs]) -> list[Answer]:
        """Every image of every request is decoded; the first that cannot be refuses its request."""
        return answer_parsed(batch, lambda inputs: bytes_column("image", inputs["image"]), self._preprocess)

    def _preprocess(self, requests: Sequence[list[bytes]]) -> Iterator[Answer]:
        images = list(chain.from_iterable(requests))
        run = self._threads.map if self._threads and len(images) > 1 else map
        results = iter(run(lambda data: or_refusal(self._pixels, data), images))
        for request in requests:
            pixels = []
            for _ in request:
                pixels.append(next(results))
                self._progress.beat()
            yield _joined(pixels)

    def _pixels(self, data: bytes) -> Array:
        """(size, size, 3) of uint8 or (3, size, size) of float32."""
        options = self._parameters
        if len(data) > options.max_bytes:
            raise InvalidRequest(f"{len(data)} bytes; at most {options.max_bytes} are allowed", reason="too_large")
        min_side = math.ceil(options.shorter_side * options.min_scale)
        image = decode(data, max_pixels=options.max_pixels, min_side=min_side)
        square = np.asarray(resize_and_crop(image, options.shorter_side, options.size, options.interpolation))
        if self._normalized is None:
            return square
        return np.stack([values[square[..., channel]] for channel, values in enumerate(self._normalized)])


def resize_and_crop(image: Decoded, shorter_side: int, size: int, interpolation: str) -> Image.Image:
    """The centre of the resized image, by computing only its pixels; rounding is that of torchvision's transforms.

    Pillow's filters look beyond the box they resample, so this is resizing everything and then cropping. (An image
    hardly larger than `shorter_side` may be filtered in the other order, columns first, which rounds differently.)
    """
    resized = [int(shorter_side * side / min(image.full_size)) for side in image.full_size]
    left, top = (round((side - size) / 2) for side in resized)
    x, y = (extent / side for extent, side in zip(image.extent, resized, strict=True))
    box = (left * x, top * y, (left + size) * x, (top + size) * y)
    return image.pixels.resize((size, size), _FILTERS[interpolation], box=box)


def _joined(results: Sequence[Array | InvalidRequest]) -> Answer:
    """The answer of one request: the pixels of all its images, or the first refusal."""
    for item, result in enumerate(results):
        if isinstance(result, InvalidRequest):
            return InvalidRequest(f"input 'image', item {item}: {result}", reason=result.reason)
    return {"pixels": np.array(results)}


def _normalized_values(parameters: ImageParameters) -> Array | None:
    """(3, 256): what each byte of each channel becomes; `None` where bytes stay bytes."""
    if parameters.mean is None or parameters.std is None:
        return None
    mean, std = (np.array(values)[:, None] for values in (parameters.mean, parameters.std))
    return ((np.arange(256) / 255 - mean) / std).astype(np.float32)  # type: ignore[no-any-return]
