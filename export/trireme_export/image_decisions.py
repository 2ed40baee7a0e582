"""What a user's own image checkpoint is exported as: the task, and what is said of it on the terminal."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from trireme_export.assembly import Assembly
from trireme_export.catalogue import IMAGE_TASKS, ImageTask, OwnModel
from trireme_export.errors import CheckpointRefused
from trireme_export.image_preprocessing import Preprocessing
from trireme_export.library_config import library_refusals

MAX_SIDE = 4096  # pixels; one image of them is 200 MB of floats to a network


def wanted_task(task: OwnModel, detected: str | None) -> ImageTask | None:
    """What `--task` says, or else the checkpoint; None: neither says one of images.

    Raises:
        CheckpointRefused: an option does not fit it.
    """
    wanted = task.task or detected
    if task.pooling is not None:
        raise CheckpointRefused("--pooling is for sentence embedding; an image model has its own: leave it out")
    if task.normalize and wanted == "image-classification":
        raise CheckpointRefused("--normalize is for vectors; a classifier gives labels: leave it out")
    return wanted if wanted in IMAGE_TASKS else None


def columns_of(model: nn.Module, preprocessing: Preprocessing, file: str, library: str = "transformers") -> int:
    """How many numbers the model gives for an image of the size that `file` says.

    Raises:
        CheckpointRefused: it takes no images of that size, or they are too large to be tried.
    """
    if not 1 <= preprocessing.size <= MAX_SIDE or preprocessing.resize > MAX_SIDE:
        raise CheckpointRefused(
            f"{file}: images of {preprocessing.size} pixels, cut out of {preprocessing.resize}; 1 to {MAX_SIDE} can be "
            "exported"
        )
    with library_refusals(f"{file}: images of {preprocessing.size} pixels", library), torch.inference_mode():
        return int(model(torch.zeros(1, 3, preprocessing.size, preprocessing.size)).shape[1])


def decided(assembly: Assembly, architecture: str, preprocessing: Preprocessing, decisions: dict[str, str]) -> Assembly:
    """`assembly` with what is to be said of it."""
    found = {
        "architecture": architecture,
        "task": assembly.task,
        **decisions,
        "image": preprocessing.describe(),
    }
    return dataclasses.replace(assembly, decisions=found)


def normalise_decision(task: OwnModel) -> dict[str, str]:
    """Whether vectors are made as long as 1."""
    made = "to length 1, as --normalize says" if task.normalize else "no (--normalize gives vectors of length 1)"
    return {"normalise": made}
