"""A user's own checkpoint of timm: what it is, and from it to everything that the exporter writes and checks."""

from __future__ import annotations

from pathlib import Path

from trireme_export.assembly import Assembly
from trireme_export.catalogue import ImageTask, OwnModel
from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.image_assembly import ImageModel, classification_assembly, embedding_assembly
from trireme_export.image_decisions import columns_of, decided, normalise_decision, wanted_task
from trireme_export.labelling import labels_decision
from trireme_export.timm_config import TimmConfig, read_timm_config
from trireme_export.timm_model import TimmVector, build_timm, read_timm_processor, without_classes
from trireme_export.weights import read_weights


def assemble_own_timm(task: OwnModel, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Image to labels or to vector, with the checkpoint's own weights alone."""
    config = read_timm_config(checkpoint.read_object("config.json"))
    wanted = wanted_task(task, _trained_for(config))
    if wanted == "image-classification" and config.num_classes == 0:
        raise CheckpointRefused(
            "config.json: num_classes is 0: an encoder, which gives no labels: --task image-embedding"
        )
    processor, preprocessing = read_timm_processor(config)
    traced = original = build_timm(config, read_weights(checkpoint, cache))
    if wanted == "image-embedding":
        original = without_classes(traced) if config.num_classes else traced
        traced = TimmVector(traced).eval()
    columns = columns_of(original, preprocessing, "config.json", "timm")
    twins = {"model.model" if wanted == "image-embedding" else "model": ""}
    model = ImageModel(traced=traced, original=original, processor=processor, preprocessing=preprocessing, twins=twins)
    if wanted == "image-classification":
        decisions = {"labels": labels_decision(config.labelling)}
        return decided(classification_assembly(model, config.labelling), _name(config), preprocessing, decisions)
    dropped = "; the classifier's head is dropped" if config.num_classes else ""
    decisions = {"vector": f"{columns} numbers, timm's pooled features{dropped}"} | normalise_decision(task)
    assembly = embedding_assembly(model, columns, normalize=task.normalize)
    return decided(assembly, _name(config), preprocessing, decisions)


def _trained_for(config: TimmConfig) -> ImageTask:
    return "image-classification" if config.num_classes else "image-embedding"


def _name(config: TimmConfig) -> str:
    return f"{config.architecture} (timm)"
