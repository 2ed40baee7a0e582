"""The tensors of a checkpoint, from safetensors; a pickle is converted in isolation first, or refused."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.executable_files import is_pickle
from trireme_export.pickle_conversion import convert_pickle
from trireme_export.weight_files import read_safetensors

LIBRARY_PICKLE = "pytorch_model.bin"  # the name that the libraries load


def read_weights(checkpoint: Checkpoint, cache: Path, folder: str = ".") -> dict[str, Tensor]:
    """Every tensor in `folder` of the checkpoint by its name, memory-mapped.

    Raises:
        CheckpointRefused: there is neither exactly one file of weights nor an index of shards that fits them, it is a
            pickle and those are not allowed, or it is damaged.
    """
    part = checkpoint.below(folder)
    files = [part.path(name) for name in read_safetensors(part).tensors] or [_converted(part, cache)]
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= _load(checkpoint, file)
    return tensors


def _load(checkpoint: Checkpoint, path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointRefused(f"{checkpoint.uri}: {path.name} is damaged: {error}") from error


def _converted(checkpoint: Checkpoint, cache: Path) -> Path:
    """The one pickle of a checkpoint without safetensors, as safetensors."""
    found = [name for name in checkpoint.files if "/" not in name and is_pickle(name)]
    if LIBRARY_PICKLE in found:  # others are of the optimiser, or the arguments of a training
        found = [LIBRARY_PICKLE]
    if len(found) != 1:
        raise CheckpointRefused(
            f"{checkpoint.uri}: one file of weights is needed, found {', '.join(found) or 'none'}; "
            "save the model again as safetensors, or move what is not of it elsewhere"
        )
    (name,) = found
    if not checkpoint.allow_pickle:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {name} is a pickle, which can run code. Ask its author for safetensors, "
            "or have it converted in an isolated process with --allow-pickle"
        )
    return convert_pickle(checkpoint.path(name), checkpoint.files[name], cache)
