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
_FILTERS = {
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
    "lanczos": Image.Resampling.LANCZOS,
    "nearest": Image.Resampling.NEAREST,
}


@dataclass(frozen=True, kw_only=True)
class ImageParameters:
    """The image is resized, then the square of `size` pixels in its middle is kept.

    `fit` says what becomes of the shape: `shorter_side` keeps it, and the shorter side gets `resize` pixels (default:
    `size`); `stretch` makes every image a square of `resize`. An odd pixel at the edge goes to either side as
    `crop_offset` says: `round` halves to the even number, as torchvision does, `floor` down, as Transformers does.

    `mean` and `std`, for red, green and blue on a scale from 0 to 1, belong to `dtype` float32; for uint8 the network
    normalises. `min_scale` bounds the reduced scale at which a large JPEG is decoded: its shorter side keeps at least
    so many times the pixels of the resized one.
    """

    size: int = parameter(minimum=1, maximum=4096)
    resize: int | None = parameter(None, minimum=1, maximum=8192)
    fit: Literal["shorter_side", "stretch"] = "shorter_side"
    crop_offset: Literal["round", "floor"] = "round"
    interpolation: Literal["bicubic", "bilinear", "lanczos", "nearest"] = "bicubic"
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
        if self.resized_side < self.size:
            raise InvalidParameter(f"parameter 'resize' is {self.resize}; it must be at least 'size', {self.size}")

    @property
    def resized_side(self) -> int:
        """Pixels of the shorter side, or of both, before the crop."""
        return self.size if self.resize is None else self.resize

    @property
    def decoded_side(self) -> int | None:
        """Pixels of a JPEG's shorter side that are decoded at least. None: all, for a filter that averages nothing."""
        return None if self.interpolation == "nearest" else math.ceil(self.resized_side * self.min_scale)

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
        image = decode(data, max_pixels=options.max_pixels, min_side=options.decoded_side)
        square = np.asarray(resize_and_crop(image, options))
        if self._normalized is None:
            return square
        return np.stack([values[square[..., channel]] for channel, values in enumerate(self._normalized)])


def resize_and_crop(image: Decoded, options: ImageParameters) -> Image.Image:
    """The centre of the resized image, by computing only its pixels; sizes are those of torchvision and Transformers.

    Pillow's filters look beyond the box they resample, so this is resizing everything and then cropping. (An image
    hardly larger than it is resized to may be filtered in the other order, columns first, which rounds differently;
    and of two source pixels equally near `nearest` may take the other.)
    """
    size, side = options.size, options.resized_side
    resized = [side, side]
    if options.fit == "shorter_side":
        resized = [int(side * own / min(image.full_size)) for own in image.full_size]
    left, top = (_offset(own - size, options.crop_offset) for own in resized)
    x, y = (extent / own for extent, own in zip(image.extent, resized, strict=True))
    box = (left * x, top * y, (left + size) * x, (top + size) * y)
    return image.pixels.resize((size, size), _FILTERS[options.interpolation], box=box)


def _offset(rest: int, rounding: str) -> int:
    """Of `rest` pixels that are cut off, how many before the square."""
    return round(rest / 2) if rounding == "round" else rest // 2


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
