"""A user's own image checkpoint of Transformers: what it is, and from it to all that the exporter writes and checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trireme_export.assembly import Assembly
from trireme_export.catalogue import ImageTask, OwnModel
from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.image_assembly import ImageModel, classification_assembly, embedding_assembly
from trireme_export.image_decisions import columns_of, decided, normalise_decision, wanted_task
from trireme_export.labelling import labels_decision, read_labelling
from trireme_export.library_image_model import (
    LibraryVector,
    build_logits,
    build_vector,
    classifier_architectures,
    is_classifier,
)
from trireme_export.library_processor import FILE, read_processor
from trireme_export.sizes import check_sizes
from trireme_export.task_detection import architectures_of, detect_task
from trireme_export.weights import read_weights


def assemble_own_image(task: OwnModel, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Image to labels or to vector, with the checkpoint's own weights alone."""
    config = checkpoint.read_object("config.json")
    check_sizes(config, [tensor.shape for tensor in read_weights(checkpoint, cache).values()])
    if _task(task, checkpoint, config) == "image-classification":
        return _classification(checkpoint, config, cache)
    return _embedding(task, checkpoint, config, cache)


def _task(task: OwnModel, checkpoint: Checkpoint, config: dict[str, Any]) -> ImageTask:
    """What `--task` says, or else the architecture that `config.json` names.

    Raises:
        CheckpointRefused: it says nothing that can be exported, or the options do not fit.
    """
    known = classifier_architectures(config)
    detected = detect_task(checkpoint, config)
    if detected is not None and detected.task == "image-classification" and not is_classifier(config):
        raise CheckpointRefused(
            f"config.json: architectures says {', '.join(architectures_of(config))}, but the classifier of model_type "
            f"{config['model_type']} is {' or '.join(known)}: correct the one that is wrong"
        )
    wanted = wanted_task(task, detected.task if detected else None)
    if wanted is None:
        raise CheckpointRefused(
            f"{checkpoint.uri}: config.json names the architecture {', '.join(architectures_of(config)) or 'nothing'}; "
            f"{' or '.join(known)} is exported as image classification, a bare encoder as image embedding, and nothing "
            "else is: say --task image-classification or image-embedding, and take a checkpoint for it"
        )
    return wanted


def _classification(checkpoint: Checkpoint, config: dict[str, Any], cache: Path) -> Assembly:
    labelling = read_labelling(config, shared_names=True)
    processor, preprocessing = read_processor(checkpoint)
    weights = read_weights(checkpoint, cache)
    original = build_logits(config, weights)
    columns_of(original, preprocessing, FILE)
    traced = build_logits(config, weights, traced=True)
    model = ImageModel(traced=traced, original=original, processor=processor, preprocessing=preprocessing)
    decisions = {"labels": labels_decision(labelling)}
    return decided(classification_assembly(model, labelling), _name(config), preprocessing, decisions)


def _embedding(task: OwnModel, checkpoint: Checkpoint, config: dict[str, Any], cache: Path) -> Assembly:
    processor, preprocessing = read_processor(checkpoint)
    weights = read_weights(checkpoint, cache)
    original = build_vector(config, weights)
    width = columns_of(original, preprocessing, FILE)
    traced = build_vector(config, weights, traced=True)
    model = ImageModel(traced=traced, original=original, processor=processor, preprocessing=preprocessing)
    decisions = {"vector": f"{width} numbers, {_pooled(config, original)}"} | normalise_decision(task)
    assembly = embedding_assembly(model, width, normalize=task.normalize)
    return decided(assembly, _name(config), preprocessing, decisions)


def _pooled(config: dict[str, Any], original: LibraryVector) -> str:
    what = "the first token of last_hidden_state" if original.first_token else "pooler_output"
    return f"{what}; the classifier's head is dropped" if is_classifier(config) else what


def _name(config: dict[str, Any]) -> str:
    return ", ".join(architectures_of(config)) or str(config["model_type"])
