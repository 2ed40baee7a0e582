"""What image entries have in common: pixels of one size, and how graph and answers are checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from trireme_export.assembly import Assembly, Difference, GoldenSample, Tolerance
from trireme_export.catalogue import MAX_BATCH_SIZE
from trireme_export.image_golden import IMAGES, classification_sample, embedding_sample, golden_images
from trireme_export.image_network import ImageNetwork
from trireme_export.image_original import ImageOriginal, ImageProcessor
from trireme_export.image_parity import image_layers, image_parity_cases, image_samples
from trireme_export.image_preprocessing import Preprocessing
from trireme_export.labelling import Labelling
from trireme_export.steps import EntrySteps, image_classification_steps, image_embedding_steps

TOLERANCE = Tolerance(max_abs=1e-3, min_cosine=0.999999)
MOST_LABELS = 5  # that an answer holds


@dataclass(frozen=True, kw_only=True)
class ImageModel:
    """An image model, read from a checkpoint. Both modules make rows of normalised images (batch, 3, height, width)."""

    traced: nn.Module
    original: nn.Module
    processor: ImageProcessor
    preprocessing: Preprocessing
    # The path of a module in the network, whose `model` is `traced`, to that of the same one in `original`.
    twins: Mapping[str, str] = field(default_factory=lambda: {"model": ""})


def classification_assembly(model: ImageModel, labelling: Labelling) -> Assembly:
    """Image to its likeliest labels."""
    k = min(MOST_LABELS, len(labelling.labels))
    original = ImageOriginal(model.original, model.processor)

    def golden(measured: Difference) -> list[GoldenSample]:
        images = golden_images(original, model.preprocessing)
        return [classification_sample(original, image, labelling, k, measured) for image in images]

    steps = image_classification_steps(model.preprocessing, labelling, k)
    files = {"postprocess/labels.json": json.dumps(labelling.labels, ensure_ascii=False).encode()}
    return _assembly("image-classification", model, steps, golden, files)


def embedding_assembly(model: ImageModel, width: int, *, normalize: bool) -> Assembly:
    """Image to a vector of `width` numbers."""
    original = ImageOriginal(model.original, model.processor)

    def golden(measured: Difference) -> list[GoldenSample]:
        images = golden_images(original, model.preprocessing)
        return [embedding_sample(original, image, measured, normalize=normalize) for image in images]

    steps = image_embedding_steps(model.preprocessing, width, normalize=normalize)
    return _assembly("image-embedding", model, steps, golden, {})


def _assembly(
    task: str,
    model: ImageModel,
    steps: EntrySteps,
    golden: Callable[[Difference], list[GoldenSample]],
    files: Mapping[str, bytes],
) -> Assembly:
    size = model.preprocessing.size
    original = ImageOriginal(model.original, model.processor)
    return Assembly(
        task=task,
        network=ImageNetwork(model.traced, model.preprocessing.normalization).eval(),
        example={"pixels": torch.zeros(2, size, size, 3, dtype=torch.uint8)},
        dynamic={"pixels": {0: "batch"}},
        output=steps.steps[1].outputs[0].name,
        ranges={"batch": (1, MAX_BATCH_SIZE)},
        steps=steps,
        files=files,
        tolerance=TOLERANCE,
        parity_cases=lambda: image_parity_cases(
            original,
            [path.read_bytes() for path in IMAGES],
            np.stack([each.pixels[0] for each in golden_images(original, model.preprocessing)]),
        ),
        samples=lambda chosen: image_samples(original, chosen or IMAGES),
        layers=image_layers(original, model.twins),
        golden_samples=golden,
    )
