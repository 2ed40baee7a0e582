"""The tensors of a checkpoint, from safetensors; a pickle is converted in isolation first, or refused."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.pickle_conversion import convert_pickle

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def read_weights(checkpoint: Checkpoint, cache: Path) -> dict[str, Tensor]:
    """Every tensor by its name in the checkpoint, memory-mapped.

    Raises:
        CheckpointRefused: there is not exactly one file of weights, it is a pickle and those are not allowed, or it is
            damaged.
    """
    path = _weights_file(checkpoint, cache)
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointRefused(f"{checkpoint.uri}: {path.name} is damaged: {error}") from error


def _weights_file(checkpoint: Checkpoint, cache: Path) -> Path:
    names = [name for name in checkpoint.files if "/" not in name]
    safetensors = [name for name in names if name.endswith(".safetensors")]
    pickles = [name for name in names if PurePosixPath(name).suffix in PICKLES]
    found = safetensors or pickles
    if len(found) != 1:
        raise CheckpointRefused(f"{checkpoint.uri}: one file of weights is needed, found {', '.join(found) or 'none'}")
    (name,) = found
    if safetensors:
        return checkpoint.path(name)
    if not checkpoint.allow_pickle:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {name} is a pickle, which can run code. Ask its author for safetensors, "
            "or have it converted in an isolated process with --allow-pickle"
        )
    return convert_pickle(checkpoint.path(name), checkpoint.files[name], cache)
