"""Nothing is built of a size that only a config states: the tensors of the checkpoint have to be of that size too."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from trireme_export.errors import CheckpointRefused

# How many times something is built or listed, each time with a tensor of its own.
_LAYERS = {"num_hidden_layers", "num_layers", "n_layers", "num_block_repeats", "depths", "depth", "layers"}
_ROWS = {"num_labels", "_num_labels", "num_classes"}  # how many names the library makes up
_SIZES = {
    *("vocab_size", "hidden_size", "intermediate_size", "max_position_embeddings", "num_attention_heads"),
    *("dim", "hidden_dim", "n_heads", "embedding_size", "hidden_sizes", "embed_dim", "num_heads"),
    *("image_size", "patch_size", "num_channels"),
}
_MANY = 1 << 20  # what no size of a model has reached that is not also the size of a tensor
_NO_SIZE = ("theta",)  # the base of rotary positions


def built_to_fit(build: Callable[[], nn.Module], check: Callable[[nn.Module], object]) -> nn.Module:
    """What `build` makes, once `check` has taken the same without memory for its numbers.

    Raises:
        CheckpointRefused: as `check` says.
    """
    with torch.device("meta"):
        check(build())
    return build()


def check_sizes(config: Mapping[str, Any], shapes: Collection[Sequence[int]]) -> None:
    """No number of `config.json` asks for more than tensors of these shapes can fill.

    Raises:
        CheckpointRefused: it asks for more layers or labels than there are tensors or rows, or for another such size.
    """
    rows = max((size for shape in shapes for size in shape), default=0)
    for path, key, value in _numbers(config, ()):
        why = None
        if isinstance(value, float) and not math.isfinite(value):
            why = "which is not finite"
        elif (key in _SIZES and value < 1) or value < -_MANY:
            why = "which is no size"
        elif key in _LAYERS and value > len(shapes):
            why = f"and there are {len(shapes)} tensors"
        elif value > (rows if key in _ROWS else max(rows, _MANY)) and not any(word in key for word in _NO_SIZE):
            why = f"and no tensor has more than {rows} rows"
        if why is not None:
            raise CheckpointRefused(f"config.json: {path} is {str(value)[:40]}, {why}")
    _check_multiplied(config, len(shapes))


def _check_multiplied(config: Mapping[str, Any], tensors: int) -> None:
    """The layers of all stages together, by the factor that EfficientNet has for their depth."""
    factor = config.get("depth_coefficient", 1)
    factor = factor if isinstance(factor, int | float) else 1
    for key in _LAYERS & config.keys():
        layers = [value for _, _, value in _numbers({key: config[key]}, ())]
        if sum(layers) * factor > tensors:
            raise CheckpointRefused(
                f"config.json: {key} is {config[key]}"[:200]
                + (f", times a depth_coefficient of {factor}" if factor != 1 else "")
                + f", and there are {tensors} tensors"
            )
    if factor > max(tensors, 1):
        raise CheckpointRefused(f"config.json: depth_coefficient is {factor}, and there are {tensors} tensors")


def _numbers(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str, float]]:
    """Every number with its place and the last key in that."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _numbers(each, (*path, str(key)))
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield ".".join(path), path[-1] if path else "", value
