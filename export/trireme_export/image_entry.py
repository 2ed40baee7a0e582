"""The catalogue's image classification: from a checkpoint to everything the exporter writes and checks."""

from __future__ import annotations

import json
from pathlib import Path

from trireme_export.assembly import Assembly
from trireme_export.catalogue import ImageClassification
from trireme_export.checkpoint import Checkpoint
from trireme_export.image_architectures import ARCHITECTURES
from trireme_export.image_assembly import ImageModel, classification_assembly
from trireme_export.intake import load_strictly
from trireme_export.labelling import Labelling
from trireme_export.pillow_processor import PillowProcessor
from trireme_export.weights import read_weights


def assemble_image_classification(task: ImageClassification, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Image to its likeliest labels."""
    architecture = ARCHITECTURES[task.architecture]
    labels: list[str] = json.loads(task.labels.read_bytes())
    classifier = architecture.build(len(labels))
    load_strictly(classifier, read_weights(checkpoint, cache), architecture.tensor_name)
    model = ImageModel(
        traced=classifier.eval(),
        original=classifier.eval(),
        processor=PillowProcessor(task.preprocessing),
        preprocessing=task.preprocessing,
    )
    return classification_assembly(model, Labelling(labels=tuple(labels), function="softmax"))
