"""What the graph of an image model is compared on: photographs, and pixels of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from trireme_export.assembly import Alone, Array, OriginalLayers, ParityCase
from trireme_export.calibration import read_images
from trireme_export.errors import CalibrationRefused
from trireme_export.image_golden import SEED
from trireme_export.image_original import Floats, ImageOriginal, Pixels


def image_parity_cases(original: ImageOriginal, files: Sequence[bytes], golden: Pixels) -> Iterator[ParityCase]:
    """Real images alone and together; random, black and white ones; batches that were never traced.

    The pixels of the golden images are among them: what is measured on these bounds what a server may answer.
    """
    yield _case("golden images", golden, original.rows(golden))
    real = np.stack([original.pixels(file) for file in files])
    expected = original.rows(real)
    for index in range(len(files)):
        yield _case(f"image {index} alone", real[index : index + 1], expected[index : index + 1])
    yield _case("real images together", real, expected)
    noise = np.random.default_rng(SEED).integers(0, 256, (5, *real.shape[1:]), np.uint8)
    noise[3], noise[4] = 0, 255
    yield replace(_case("three of noise, black, white", noise, original.rows(noise)), is_real=False)


def image_samples(original: ImageOriginal, files: Sequence[Path]) -> Iterator[dict[str, Pixels]]:
    """The network's inputs for one image after the other.

    Raises:
        CalibrationRefused: a file is no image.
    """
    for file, content in read_images(files):
        try:
            pixels = original.pixels(content)
        except OSError as error:  # what Pillow raises
            raise CalibrationRefused(f"--calibration {file}: it cannot be read as an image ({error})") from error
        yield {"pixels": pixels[None]}


def image_layers(original: ImageOriginal, twins: Mapping[str, str]) -> OriginalLayers:
    """Of every image of a case; `twins` are the modules that network and original have both."""
    return OriginalLayers(root=original.model, twins=twins, each=partial(_images, original))


def _images(original: ImageOriginal, inputs: Mapping[str, Array]) -> Iterator[Alone]:
    pixels = inputs["pixels"]
    for place in range(len(pixels)):
        run = partial(original.rows, pixels[place : place + 1])
        yield Alone(run=run, part=partial(_part, batch=len(pixels), place=place))


def _part(value: Array, own: Array, *, batch: int, place: int) -> Array | None:
    """Of (batch * n, ...), where the original gives (n, ...): of one image, which has n windows or is one."""
    if own.ndim == 0 or value.shape != (batch * own.shape[0], *own.shape[1:]):
        return None
    return value.reshape(batch, *own.shape)[place]  # type: ignore[no-any-return]


def _case(name: str, pixels: Pixels, expected: Floats) -> ParityCase:
    return ParityCase(name=name, inputs={"pixels": pixels}, expected=expected)
