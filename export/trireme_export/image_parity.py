"""What the graph of an image model is compared on: photographs, and pixels of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from trireme_export.assembly import ParityCase
from trireme_export.image_golden import SEED
from trireme_export.image_original import Floats, ImageOriginal, Pixels


def image_parity_cases(original: ImageOriginal, files: Sequence[bytes]) -> Iterator[ParityCase]:
    """Real images alone and together; random, black and white ones; batches that were never traced."""
    real = np.stack([original.pixels(file) for file in files])
    expected = original.rows(real)
    for index in range(len(files)):
        yield _case(f"image {index} alone", real[index : index + 1], expected[index : index + 1])
    yield _case("real images together", real, expected)
    noise = np.random.default_rng(SEED).integers(0, 256, (5, *real.shape[1:]), np.uint8)
    noise[3], noise[4] = 0, 255
    yield _case("three of noise, black, white", noise, original.rows(noise))


def _case(name: str, pixels: Pixels, expected: Floats) -> ParityCase:
    return ParityCase(name=name, inputs={"pixels": pixels}, expected=expected)
