"""Nothing of a checkpoint is dropped or made up in silence: every config key and every tensor is accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from trireme_export.errors import CheckpointRefused
from trireme_export.families import FAMILIES, Family


def family_of(config: Mapping[str, Any]) -> Family:
    """The family that `config.json` names, once all its keys are known to be right for it.

    Raises:
        CheckpointRefused: an unknown family, an unknown key, or a value that this family's definition cannot follow.
    """
    model_type = config.get("model_type")
    if model_type not in FAMILIES:
        raise CheckpointRefused(f"config.json: model_type is {model_type!r}; known are {', '.join(sorted(FAMILIES))}")
    family = FAMILIES[model_type]
    unknown = sorted(config.keys() - family.understood - family.irrelevant - family.fixed.keys())
    if unknown:
        raise CheckpointRefused(f"config.json: {', '.join(unknown)}: not known for {model_type}, so not safe to ignore")
    missing = sorted(family.understood - config.keys())
    if missing:
        raise CheckpointRefused(f"config.json: {', '.join(missing)}: missing, and {model_type} cannot be built without")
    for key, only in family.fixed.items():
        if config.get(key, only) != only:
            raise CheckpointRefused(f"config.json: {key} is {config[key]!r}; only {only!r} can be exported")
    return family


def encoder_name(name: str, family: Family) -> str:
    """A tensor's name in the checkpoint, as the encoder of that family calls it."""
    prefix = next((prefix for prefix in family.prefixes if name.startswith(prefix)), "")
    name = name.removeprefix(prefix)
    for old, new in family.renamed.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def load_strictly(
    module: nn.Module, tensors: Mapping[str, Tensor], rename: Callable[[str], str], ignorable: Iterable[str] = ()
) -> None:
    """Give `module` the `tensors`, in fp32; every parameter is filled and every tensor used or named as ignorable.

    Raises:
        CheckpointRefused: a tensor is missing, unexpected, given twice, or has another shape or kind of number.
    """
    expected = module.state_dict()
    patterns = tuple(ignorable)
    given: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        target = rename(name)
        if target in given:
            raise CheckpointRefused(f"two tensors of the checkpoint mean {target}; one is {name}")
        if target in expected or not any(fnmatchcase(target, pattern) for pattern in patterns):
            given[target] = tensor
    _check_names(expected, given)
    _check_shapes(expected, given)
    module.load_state_dict({name: tensor.to(expected[name].dtype) for name, tensor in given.items()}, strict=True)


class TensorsDoNotFit(CheckpointRefused):
    """Names that the architecture has and the checkpoint lacks, and the other way round."""

    def __init__(self, missing: list[str], unexpected: list[str]) -> None:
        parts = [f"missing: {_some(missing)}"] if missing else []
        parts += [f"not used by this architecture: {_some(unexpected)}"] if unexpected else []
        super().__init__(f"the tensors do not fit; {'; '.join(parts)}")
        self.missing = missing
        self.unexpected = unexpected


def _check_names(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    missing, unexpected = sorted(expected.keys() - given.keys()), sorted(given.keys() - expected.keys())
    if missing or unexpected:
        raise TensorsDoNotFit(missing, unexpected)


def _check_shapes(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    for name, tensor in given.items():
        wanted = expected[name]
        if tensor.shape != wanted.shape or tensor.is_floating_point() != wanted.is_floating_point():
            raise CheckpointRefused(
                f"tensor {name} is {tensor.dtype} {list(tensor.shape)}; needed is {wanted.dtype} {list(wanted.shape)}"
            )
        if tensor.is_floating_point() and not tensor.is_meta and not bool(torch.isfinite(tensor).all()):
            raise CheckpointRefused(f"tensor {name} holds numbers that are not finite")


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + rest
