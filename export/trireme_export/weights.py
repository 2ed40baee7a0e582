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
INDEX = "model.safetensors.index.json"


def read_weights(checkpoint: Checkpoint, cache: Path, folder: str = ".") -> dict[str, Tensor]:
    """Every tensor in `folder` of the checkpoint by its name, memory-mapped.

    Raises:
        CheckpointRefused: there is neither exactly one file of weights nor an index of shards that fits them, it is a
            pickle and those are not allowed, or it is damaged.
    """
    index = PurePosixPath(folder, INDEX).as_posix()
    if index in checkpoint.files:
        return _read_shards(checkpoint, index)
    return _load(checkpoint, _weights_file(checkpoint, cache, folder))


def _read_shards(checkpoint: Checkpoint, index: str) -> dict[str, Tensor]:
    places = checkpoint.read_json(index)["weight_map"]
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(places.values())):
        found = _load(checkpoint, checkpoint.path(PurePosixPath(index).with_name(shard).as_posix()))
        named = {name for name, place in places.items() if place == shard}
        if named != found.keys():
            differing = ", ".join(sorted(named ^ found.keys())[:8])
            raise CheckpointRefused(f"{checkpoint.uri}: {index} and {shard} do not name the same tensors: {differing}")
        tensors |= found
    return tensors


def _load(checkpoint: Checkpoint, path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointRefused(f"{checkpoint.uri}: {path.name} is damaged: {error}") from error


def _weights_file(checkpoint: Checkpoint, cache: Path, folder: str) -> Path:
    names = [name for name in checkpoint.files if PurePosixPath(name).parent == PurePosixPath(folder)]
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
