"""Image classification: from a checkpoint to everything the exporter writes and checks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from trireme_export.assembly import Assembly, GoldenSample, GoldenTensor, ParityCase, Tolerance, bytes_tensor
from trireme_export.catalogue import MAX_BATCH_SIZE, PACKAGE, ImageClassification
from trireme_export.checkpoint import Checkpoint
from trireme_export.image_architectures import ARCHITECTURES
from trireme_export.image_network import ImageNetwork
from trireme_export.image_original import ImageOriginal, Pixels
from trireme_export.intake import load_strictly
from trireme_export.steps import image_steps
from trireme_export.weights import read_weights

TOLERANCE = Tolerance(max_abs=1e-3, min_cosine=0.999999)
MAX_SCORE_DIFFERENCE = 0.005  # of a probability; fp32 runtimes on CPUs stay far below
MIN_LOGIT_GAP = 0.25  # between neighbours in the ranking
SEED = 20_24
# Cut from photographs in scikit-image: chelsea by Stefan van der Walt and coffee by Rachel Michetti (CC0), rocket by
# SpaceX (public domain). Their likeliest labels are far enough apart to be compared.
IMAGES = tuple(PACKAGE / "golden_images" / name for name in ("chelsea.jpg", "coffee.jpg", "rocket.jpg"))


def assemble_image_classification(task: ImageClassification, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Image to its likeliest labels."""
    architecture = ARCHITECTURES[task.architecture]
    labels: list[str] = json.loads(task.labels.read_bytes())
    classifier = architecture.build(len(labels))
    load_strictly(classifier, read_weights(checkpoint, cache), architecture.tensor_name)
    original = ImageOriginal(classifier.eval(), task)
    files = [path.read_bytes() for path in IMAGES]
    return Assembly(
        task="image-classification",
        network=ImageNetwork(classifier, task.mean, task.std).eval(),
        example={"pixels": torch.zeros(2, task.size, task.size, 3, dtype=torch.uint8)},
        dynamic={"pixels": {0: "batch"}},
        output="logits",
        ranges={"batch": (1, MAX_BATCH_SIZE)},
        steps=image_steps(task, len(labels)),
        files={"postprocess/labels.json": json.dumps(labels, ensure_ascii=False).encode()},
        tolerance=TOLERANCE,
        parity_cases=lambda: parity_cases(original, files),
        golden_samples=lambda: [golden_sample(original, [file], labels, task.k) for file in files],
    )


def parity_cases(original: ImageOriginal, files: Sequence[bytes]) -> Iterator[ParityCase]:
    """Real images alone and together; random, black and white ones; batches that were never traced."""
    real = np.stack([original.pixels(file) for file in files])
    expected = original.logits(real)
    for index in range(len(files)):
        yield _case(f"image {index} alone", real[index : index + 1], expected[index : index + 1])
    yield _case("real images together", real, expected)
    noise = np.random.default_rng(SEED).integers(0, 256, (5, *real.shape[1:]), np.uint8)
    noise[3], noise[4] = 0, 255
    yield _case("three of noise, black, white", noise, original.logits(noise))


def _case(name: str, pixels: Pixels, expected: NDArray[np.float32]) -> ParityCase:
    return ParityCase(name=name, inputs={"pixels": pixels}, expected=expected)


def golden_sample(original: ImageOriginal, files: Sequence[bytes], labels: Sequence[str], k: int) -> GoldenSample:
    """One request with image files. Labels are checked unless two neighbours in the ranking are too close."""
    logits = original.logits(np.stack([original.pixels(file) for file in files])).astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores = powers / powers.sum(axis=1, keepdims=True)
    order = np.argsort(-scores, axis=1, kind="stable")
    best = np.take_along_axis(scores, order, axis=1)
    near = {"max_abs": MAX_SCORE_DIFFERENCE}
    outputs = [GoldenTensor(name="score", data_type="FP32", values=best[:, :k].astype(np.float32), check=near)]
    ranked = np.take_along_axis(logits, order[:, : k + 1], axis=1)
    if -np.diff(ranked, axis=1).max() > MIN_LOGIT_GAP:
        names = [labels[index].encode() for index in order[:, :k].reshape(-1)]
        outputs.append(bytes_tensor("label", names, k, check={"equal": True}))
    return GoldenSample(inputs=(bytes_tensor("image", list(files)),), outputs=tuple(outputs))
