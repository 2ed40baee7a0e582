"""Golden samples of image models: photographs through the original, each with the bound that its file allows.

A PNG file of the size that images are resized to has the same pixels in every decoder, and no resizing rounds them.
A JPEG file is decoded and resized by the server in ways of its own, which may be levels away from what the original
sees (docs/contracts.md: `min_scale`); how much of that a model's answer shows is measured on the original.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from trireme_export.assembly import EXACT, Difference, GoldenSample, GoldenTensor, bytes_tensor
from trireme_export.catalogue import PACKAGE
from trireme_export.image_original import ImageOriginal, Pixels
from trireme_export.image_preprocessing import Preprocessing
from trireme_export.labelling import Labelling
from trireme_export.original_answers import lengths_of, probabilities

Rows = NDArray[np.float64]
MAX_SCORE_DIFFERENCE = 0.005  # of a probability; fp32 runtimes on CPUs stay far below
MIN_LOGIT_GAP = 0.25  # between neighbours in the ranking
MIN_COSINE = 0.9999  # of a vector
MAX_LENGTH_CHANGE = 0.01  # of a vector, which `min_cosine` asks for too
DECODED_WITHIN = 3  # levels of 255 that a pixel of a photograph may be off, decoded and resized in another way
_BEYOND_MEASURED = 2  # of what was measured: no few changes are the worst
_NOISES = 4
SEED = 20_24
# Cut from photographs in scikit-image: chelsea by Stefan van der Walt and coffee by Rachel Michetti (CC0), rocket by
# SpaceX (public domain). Of `vision` their likeliest labels are far enough apart to be compared.
IMAGES = tuple(PACKAGE / "golden_images" / name for name in ("chelsea.jpg", "coffee.jpg", "rocket.jpg"))


@dataclass(frozen=True, kw_only=True)
class GoldenImage:
    """A file, and the pixels that a server may make of it, the original's own first."""

    file: bytes
    pixels: Pixels  # (1 + changes, size, size, 3)


def golden_images(original: ImageOriginal, preprocessing: Preprocessing) -> Iterator[GoldenImage]:
    """Every photograph as a PNG that is exact, then the last as the JPEG that it is."""
    files = [path.read_bytes() for path in IMAGES]
    for file in files:
        exact = _as_png(file, preprocessing.resize)
        yield GoldenImage(file=exact, pixels=original.pixels(exact)[None])
    yield GoldenImage(file=files[-1], pixels=_changed(original.pixels(files[-1])))


def classification_sample(
    original: ImageOriginal, image: GoldenImage, labelling: Labelling, k: int, measured: Difference = EXACT
) -> GoldenSample:
    """One request with a file. Labels are checked unless two neighbours in the ranking are too close."""
    logits = original.rows(image.pixels).astype(np.float64)  # (1 + changes, labels)
    scores = probabilities(logits, labelling.function)
    order = np.argsort(-logits[0], kind="stable")
    best = -np.sort(-scores, axis=1)[:, :k]
    allowed = {"max_abs": max(MAX_SCORE_DIFFERENCE, _largest_change(best) + _BEYOND_MEASURED * measured.max_abs / 2)}
    outputs = [GoldenTensor(name="score", data_type="FP32", values=best[:1].astype(np.float32), check=allowed)]
    gap = np.diff(-logits[0, order[: k + 1]]).min(initial=np.inf)
    change = _largest_change(logits) + _BEYOND_MEASURED * measured.max_abs
    if gap > max(MIN_LOGIT_GAP, 2 * change):  # two neighbours may come towards each other
        names = [labelling.labels[index].encode() for index in order[:k]]
        outputs.append(bytes_tensor("label", names, k, check={"equal": True}))
    return GoldenSample(inputs=(bytes_tensor("image", [image.file]),), outputs=tuple(outputs))


def embedding_sample(
    original: ImageOriginal, image: GoldenImage, measured: Difference = EXACT, *, normalize: bool
) -> GoldenSample:
    """One request with a file.

    Raises:
        CheckpointRefused: the original gives a vector that has no direction.
    """
    vectors = original.rows(image.pixels).astype(np.float64)  # (1 + changes, D)
    lengths = lengths_of(vectors)
    given = vectors / lengths if normalize else vectors
    values = given[:1].astype(np.float32)
    embedding = GoldenTensor(
        name="embedding", data_type="FP32", values=values, check=_vector_check(given, measured, normalize=normalize)
    )
    return GoldenSample(inputs=(bytes_tensor("image", [image.file]),), outputs=(embedding,))


def _vector_check(vectors: Rows, measured: Difference, *, normalize: bool) -> dict[str, float]:
    """The direction, where the lengths are near enough for that; else every number."""
    lengths = np.linalg.norm(vectors, axis=1)
    is_coarse = not normalize and 1 - measured.min_cosine > (1 - MIN_COSINE) / _BEYOND_MEASURED
    if is_coarse or _largest_change(lengths) > MAX_LENGTH_CHANGE * lengths[0]:
        return {"max_abs": _largest_change(vectors) + _BEYOND_MEASURED * measured.max_abs}
    cosines = vectors @ vectors[0] / lengths / lengths[0]
    angles = (float(np.arccos(np.clip(each, -1, 1))) for each in (cosines.min(), measured.min_cosine))
    return {"min_cosine": float(min(MIN_COSINE, np.cos(min(_BEYOND_MEASURED * sum(angles), np.pi))))}


def _as_png(file: bytes, side: int) -> bytes:
    """The square in its middle, with as many pixels as images are resized to, so that no resizing changes them."""
    with Image.open(io.BytesIO(file)) as opened:
        photo = opened.convert("RGB")
    edge = min(photo.size)
    left, top = ((own - edge) // 2 for own in photo.size)
    square = photo.resize((side, side), Image.Resampling.BICUBIC, box=(left, top, left + edge, top + edge))
    written = io.BytesIO()
    square.save(written, "PNG", optimize=True)
    return written.getvalue()


def _changed(pixels: Pixels) -> Pixels:
    """As they are; then with softer and with harder edges, and with noise, which resizing leaves; and a level off."""
    generator = np.random.default_rng(SEED)
    towards_soft = np.asarray(Image.fromarray(pixels).filter(ImageFilter.BoxBlur(1))).astype(int) - pixels
    noises = [generator.integers(-1, 1, pixels.shape, endpoint=True) for _ in range(_NOISES)]
    changes = [np.ones_like(towards_soft), *(DECODED_WITHIN * each for each in (np.sign(towards_soft), *noises))]
    levels = [0 * changes[0], *(sign * change for change in changes for sign in (1, -1))]
    return np.stack([np.clip(pixels + level, 0, 255).astype(np.uint8) for level in levels])


def _largest_change(rows: Rows) -> float:
    """By which a number of the first row may be off: more than those of the other rows are."""
    return float(_BEYOND_MEASURED * np.abs(rows - rows[0]).max())
