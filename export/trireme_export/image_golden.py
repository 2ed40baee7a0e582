"""Golden samples and parity cases of image models: photographs through the original, and pixels of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trireme_export.assembly import GoldenSample, GoldenTensor, ParityCase, bytes_tensor
from trireme_export.catalogue import PACKAGE
from trireme_export.errors import CheckpointRefused
from trireme_export.image_original import Floats, ImageOriginal, Pixels
from trireme_export.labelling import Labelling

MAX_SCORE_DIFFERENCE = 0.005  # of a probability; fp32 runtimes on CPUs stay far below
MIN_LOGIT_GAP = 0.25  # between neighbours in the ranking
MIN_COSINE = 0.9999  # of a vector
SEED = 20_24
# Cut from photographs in scikit-image: chelsea by Stefan van der Walt and coffee by Rachel Michetti (CC0), rocket by
# SpaceX (public domain). Of `vision` their likeliest labels are far enough apart to be compared.
IMAGES = tuple(PACKAGE / "golden_images" / name for name in ("chelsea.jpg", "coffee.jpg", "rocket.jpg"))


def parity_cases(original: ImageOriginal, files: Sequence[bytes]) -> Iterator[ParityCase]:
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


def classification_sample(
    original: ImageOriginal, files: Sequence[bytes], labelling: Labelling, k: int
) -> GoldenSample:
    """One request with image files. Labels are checked unless two neighbours in the ranking are too close."""
    logits = _rows(original, files)
    scores = _softmax(logits) if labelling.function == "softmax" else 1 / (1 + np.exp(-logits))
    order = np.argsort(-logits, axis=1, kind="stable")
    best = np.take_along_axis(scores, order, axis=1)[:, :k].astype(np.float32)
    outputs = [GoldenTensor(name="score", data_type="FP32", values=best, check={"max_abs": MAX_SCORE_DIFFERENCE})]
    ranked = np.take_along_axis(logits, order[:, : k + 1], axis=1)
    if np.diff(-ranked, axis=1).min(initial=np.inf) > MIN_LOGIT_GAP:
        names = [labelling.labels[index].encode() for index in order[:, :k].reshape(-1)]
        outputs.append(bytes_tensor("label", names, k, check={"equal": True}))
    return GoldenSample(inputs=(bytes_tensor("image", list(files)),), outputs=tuple(outputs))


def embedding_sample(original: ImageOriginal, files: Sequence[bytes], *, normalize: bool) -> GoldenSample:
    """One request with image files.

    Raises:
        CheckpointRefused: the original gives a vector that has no direction.
    """
    vectors = _rows(original, files)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not lengths.all():
        raise CheckpointRefused("the original gives a vector of nothing but zeros, which has no direction to compare")
    values = (vectors / lengths if normalize else vectors).astype(np.float32)
    embedding = GoldenTensor(name="embedding", data_type="FP32", values=values, check={"min_cosine": MIN_COSINE})
    return GoldenSample(inputs=(bytes_tensor("image", list(files)),), outputs=(embedding,))


def _rows(original: ImageOriginal, files: Sequence[bytes]) -> NDArray[np.float64]:
    return original.rows(np.stack([original.pixels(file) for file in files])).astype(np.float64)


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]
