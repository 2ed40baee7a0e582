"""Nothing of a checkpoint is dropped or made up in silence: every config key and every tensor is accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.families import FAMILIES, Family
from trireme_export.image_families import IMAGE_FAMILIES


class ConfigRules(Protocol):
    """What has to be known of the keys of one `model_type`."""

    @property
    def model_type(self) -> str: ...

    @property
    def required(self) -> frozenset[str]:
        """Keys without which the library would take sizes of its own."""
        ...

    @property
    def only_values(self) -> Mapping[str, object]:
        """Keys that may be there with this value only."""
        ...

    @property
    def undeclared(self) -> frozenset[str]:
        """Keys that may be there though the config class does not declare them."""
        ...


def family_of(config: Mapping[str, Any]) -> Family:
    """The family that `config.json` names.

    Raises:
        CheckpointRefused: it is not known.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise CheckpointRefused(
            f"config.json: model_type is {model_type!r}; known are {', '.join(sorted(FAMILIES | IMAGE_FAMILIES))}"
        )
    return FAMILIES[model_type]


def check_keys(config: Mapping[str, Any], rules: ConfigRules, declared: Iterable[str]) -> None:
    """Every key of `config.json` is one that the library's config class declares, or is known to be right.

    Raises:
        CheckpointRefused: an unknown key, a missing size, or a value that the exported graph cannot follow.
    """
    unknown = sorted(config.keys() - set(declared) - rules.undeclared)
    if unknown:
        raise CheckpointRefused(
            f"config.json: {', '.join(unknown)}: not known for {rules.model_type}, so not safe to ignore. "
            "Remove what is certain not to change the model's answers; a model that needs it cannot be exported"
        )
    missing = sorted(rules.required - config.keys())
    if missing:
        raise CheckpointRefused(
            f"config.json: {', '.join(missing)}: missing, and {rules.model_type} cannot be built without"
        )
    for key, only in rules.only_values.items():
        if config.get(key, only) != only:
            raise CheckpointRefused(f"config.json: {key} is {config[key]!r}; only {only!r} can be exported")


def read_settings(checkpoint: Checkpoint, name: str, free: Iterable[str], only: Mapping[str, object]) -> dict[str, Any]:
    """The JSON object in the file `name`: its keys are `free` to have any value, or have that in `only`.

    Raises:
        CheckpointRefused: there is no such file, or it has another key or value.
    """
    settings = checkpoint.read_object(name)
    for key, value in settings.items():
        if key in only and value != only[key]:
            raise CheckpointRefused(f"{checkpoint.uri}: {name}: {key} is {value!r}; only {only[key]!r} can be exported")
        if key not in only and key not in free:
            known = ", ".join(sorted({*free, *only}))
            raise CheckpointRefused(
                f"{checkpoint.uri}: {name}: {key} is not known, so not safe to ignore; known: {known}"
            )
    return settings


def encoder_name(name: str, family: Family) -> str:
    """A tensor's name in the checkpoint, as the encoder of that family calls it."""
    return classifier_name(name.removeprefix(f"{family.encoder}."), family)


def classifier_name(name: str, family: Family) -> str:
    """A tensor's name in the checkpoint, as the library's classifier of that family calls it."""
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
    given = fitting(module, tensors, rename, ignorable)
    for name, tensor in given.items():
        if tensor.is_floating_point() and not tensor.is_meta and not bool(torch.isfinite(tensor).all()):
            raise CheckpointRefused(f"tensor {name} holds numbers that are not finite")
    expected = module.state_dict()
    module.load_state_dict({name: tensor.to(expected[name].dtype) for name, tensor in given.items()}, strict=True)


def fitting(
    module: nn.Module, tensors: Mapping[str, Tensor], rename: Callable[[str], str], ignorable: Iterable[str] = ()
) -> dict[str, Tensor]:
    """The `tensors` by the names that `module` has for them, without reading their numbers.

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
    return given


class TensorsDoNotFit(CheckpointRefused):
    """Names that the architecture has and the checkpoint lacks, and the other way round."""

    def __init__(self, missing: list[str], unexpected: list[str]) -> None:
        parts = [f"missing: {_some(missing)}"] if missing else []
        parts += [f"not used by this architecture: {_some(unexpected)}"] if unexpected else []
        super().__init__(
            f"the tensors do not fit; {'; '.join(parts)}. Nothing is left out or made up: "
            "take the checkpoint that was saved for this task, whole"
        )
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


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + rest
