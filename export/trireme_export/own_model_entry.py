"""A user's own checkpoint: of text or of images, as its `config.json` says."""

from __future__ import annotations

from pathlib import Path

from trireme_export.assembly import Assembly
from trireme_export.catalogue import IMAGE_TASKS, TEXT_TASKS, OwnModel
from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.image_families import IMAGE_FAMILIES
from trireme_export.model_folder import CONFIG, model_folder
from trireme_export.own_image_entry import assemble_own_image
from trireme_export.own_text_entry import assemble_own_text
from trireme_export.own_timm_entry import assemble_own_timm
from trireme_export.timm_config import is_timm


def assemble_own_model(task: OwnModel, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """What the checkpoint is trained for, or what `--task` says.

    Raises:
        CheckpointRefused: it is of no known family, or cannot be followed to the last key and tensor.
    """
    model = checkpoint.below(model_folder(checkpoint))
    config = model.read_object(CONFIG)
    model_type = config.get("model_type")
    is_image = is_timm(config) or (isinstance(model_type, str) and model_type in IMAGE_FAMILIES)
    if task.task in (TEXT_TASKS if is_image else IMAGE_TASKS):
        kind, fitting = ("images", IMAGE_TASKS) if is_image else ("text", TEXT_TASKS)
        raise CheckpointRefused(
            f"--task {task.task}: config.json names {model_type or config.get('architecture')!r}, a model of {kind}; "
            f"{' or '.join(fitting)} can be asked of it"
        )
    if is_timm(config):
        return assemble_own_timm(task, model, cache)
    if is_image:
        return assemble_own_image(task, model, cache)
    if task.normalize:
        raise CheckpointRefused(
            "--normalize is for image embedding; a text encoder's modules.json says it: leave it out"
        )
    return assemble_own_text(task, checkpoint, cache)
