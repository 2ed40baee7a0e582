"""A user's own image checkpoint: what it is, and from it to everything that the exporter writes and checks."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from trireme_export.assembly import Assembly
from trireme_export.catalogue import ImageTask, OwnModel
from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.image_assembly import ImageModel, classification_assembly, embedding_assembly
from trireme_export.image_preprocessing import Preprocessing
from trireme_export.labelling import Labelling, read_labelling
from trireme_export.library_config import library_refusals
from trireme_export.library_image_model import (
    LibraryVector,
    build_logits,
    build_vector,
    classifier_architectures,
    is_classifier,
)
from trireme_export.library_processor import read_processor
from trireme_export.task_detection import architectures_of, detect_task
from trireme_export.weights import read_weights

_SHOWN = 8  # labels


def assemble_own_image(task: OwnModel, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Image to labels or to vector, with the checkpoint's own weights alone."""
    config = checkpoint.read_object("config.json")
    if _task(task, checkpoint, config) == "image-classification":
        return _classification(checkpoint, config, cache)
    return _embedding(checkpoint, config, cache, normalize=task.normalize)


def _task(task: OwnModel, checkpoint: Checkpoint, config: dict[str, Any]) -> ImageTask:
    """What `--task` says, or else the architecture that `config.json` names.

    Raises:
        CheckpointRefused: it says nothing that can be exported, or the options do not fit.
    """
    known = classifier_architectures(config)
    detected = detect_task(checkpoint, config)
    wanted = task.task or (detected.task if detected else None)
    if detected is not None and detected.task == "image-classification" and not is_classifier(config):
        raise CheckpointRefused(
            f"config.json: architectures says {', '.join(architectures_of(config))}, but the classifier of model_type "
            f"{config['model_type']} is {' or '.join(known)}: correct the one that is wrong"
        )
    if task.pooling is not None:
        raise CheckpointRefused("--pooling is for sentence embedding; an image model has its own: leave it out")
    if wanted == "image-classification":
        if task.normalize:
            raise CheckpointRefused("--normalize is for vectors; a classifier gives labels: leave it out")
        return "image-classification"
    if wanted == "image-embedding":
        return "image-embedding"
    raise CheckpointRefused(
        f"{checkpoint.uri}: config.json names the architecture {', '.join(architectures_of(config)) or 'nothing'}; "
        f"{' or '.join(known)} is exported as image classification, and a bare encoder as image embedding, not as "
        f"{wanted or 'anything else'}: say --task image-classification or image-embedding, and take a checkpoint for it"
    )


def _classification(checkpoint: Checkpoint, config: dict[str, Any], cache: Path) -> Assembly:
    labelling = read_labelling(config, shared_names=True)
    processor, preprocessing = read_processor(checkpoint)
    weights = read_weights(checkpoint, cache)
    original = build_logits(config, weights)
    _check_size(original, preprocessing)
    model = ImageModel(
        traced=build_logits(config, weights, traced=True),
        original=original,
        processor=processor,
        preprocessing=preprocessing,
    )
    decisions = {"labels": _labels(labelling)} | _shared_names(labelling)
    return _decided(classification_assembly(model, labelling), config, preprocessing, decisions)


def _embedding(checkpoint: Checkpoint, config: dict[str, Any], cache: Path, *, normalize: bool) -> Assembly:
    processor, preprocessing = read_processor(checkpoint)
    weights = read_weights(checkpoint, cache)
    original = build_vector(config, weights)
    width = _check_size(original, preprocessing)
    model = ImageModel(
        traced=build_vector(config, weights, traced=True),
        original=original,
        processor=processor,
        preprocessing=preprocessing,
    )
    decisions = {
        "vector": f"{width} numbers, {_pooled(config, original)}",
        "normalise": "to length 1, as --normalize says" if normalize else "no (--normalize gives vectors of length 1)",
    }
    return _decided(embedding_assembly(model, width, normalize=normalize), config, preprocessing, decisions)


def _pooled(config: dict[str, Any], original: LibraryVector) -> str:
    what = "the first token of last_hidden_state" if original.first_token else "pooler_output"
    return f"{what}; the classifier's head is dropped" if is_classifier(config) else what


def _check_size(original: torch.nn.Module, preprocessing: Preprocessing) -> int:
    """How many numbers the original gives for an image of that size.

    Raises:
        CheckpointRefused: it takes no images of that size.
    """
    with library_refusals(f"preprocessor_config.json: images of {preprocessing.size} pixels"), torch.inference_mode():
        return int(original(torch.zeros(1, 3, preprocessing.size, preprocessing.size)).shape[1])


def _decided(
    assembly: Assembly, config: dict[str, Any], preprocessing: Preprocessing, decisions: dict[str, str]
) -> Assembly:
    found = {
        "architecture": ", ".join(architectures_of(config)) or config["model_type"],
        "task": assembly.task,
        **decisions,
        "image": preprocessing.describe(),
        "precision": "fp32 on CPUs",
    }
    return dataclasses.replace(assembly, decisions=found)


def _labels(labelling: Labelling) -> str:
    names, count = labelling.labels, len(labelling.labels)
    rest = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    how = "one of them" if labelling.function == "softmax" else "each by itself"
    unnamed = names == tuple(f"LABEL_{index}" for index in range(count))
    note = "; config.json gives them no other names" if unnamed else ""
    return f"{', '.join(names[:_SHOWN])}{rest} ({labelling.function}: {how}{note})"


def _shared_names(labelling: Labelling) -> dict[str, str]:
    shared = [name for name, times in Counter(labelling.labels).items() if times > 1]
    return {"labels that several classes share": ", ".join(shared)} if shared else {}
