"""JPEG images of a given size, always the same ones, that cost about as much to decode as photographs."""

import io
import re

import numpy as np

SEED = 7
QUALITY = 85


def images(size: str, count: int) -> list[bytes]:
    """As many different images; `size` is `WIDTHxHEIGHT`. Raises `ValueError`."""
    if not (match := re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", size)):
        raise ValueError(f"unknown workload {size!r}; for a model of images it is WIDTHxHEIGHT, such as 500x375")
    width, height = map(int, match.groups())
    rng = np.random.default_rng(SEED)
    return [_jpeg(rng, width, height) for _ in range(count)]


def _jpeg(rng: np.random.Generator, width: int, height: int) -> bytes:
    """Soft patches of colour with some grain: about 1.5 bits per pixel as a JPEG, like a photograph."""
    from PIL import Image

    patches = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(
        (width, height), Image.Resampling.BICUBIC
    )
    grain = rng.normal(0, 6, (height, width, 1))
    pixels = np.clip(np.asarray(patches) + grain, 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
