"""What a stage is: parameters and tensors declared up front, and one answer per request."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from trireme_triton.parameters import InvalidParameter
from trireme_triton.progress import Progress
from trireme_triton.tensors import Answer, Inputs, InvalidRequest, or_refusal

Parsed = TypeVar("Parsed")

# Of one tensor without its batch dimension. A number is that size, -1 is a variable size, and a letter is any
# fixed size, the same wherever the letter stands.
Dims: TypeAlias = tuple[int | str, ...]
Sizes: TypeAlias = Mapping[str, int]  # what the letters stand for in one model's config


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The tensors of a stage: name to (data type as in config.pbtxt, dims)."""

    inputs: Mapping[str, tuple[str, Dims]]
    outputs: Mapping[str, tuple[str, Dims]]


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a stage may know of the model it is loaded for."""

    folder: Path  # the version folder, with the files that parameters name
    sizes: Sizes
    progress: Progress  # told after every part of a long answer


class Stage(Protocol):
    """A loaded stage. It keeps no state between calls."""

    def answer(self, batch: Sequence[Inputs]) -> Sequence[Answer]:
        """One answer per request of `batch`, in order: its outputs, or why it cannot be answered."""
        ...


class StageParameters(Protocol):
    """The dataclass of a stage's parameters."""

    def signature(self) -> Signature:
        """The tensors of the stage with these parameters."""
        ...


class StageKind(Protocol):
    """The class of a stage: what the registry names."""

    Parameters: type[StageParameters]

    def __call__(self, parameters: Any, model: Model, /) -> Stage:
        """Loads the stage."""
        ...


def bind_sizes(signature: Signature, config: Mapping[str, Any]) -> Sizes:
    """What the letters of `signature` stand for in a model's config.

    Raises:
        InvalidParameter: the config's tensors are not those of the signature.
    """
    if config.get("max_batch_size", 0) < 1:
        raise InvalidParameter("max_batch_size must be at least 1: every tensor of a stage has a batch dimension")
    sizes: dict[str, int] = {}
    for direction, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        given = {tensor["name"]: tensor for tensor in config[direction]}
        if given.keys() != tensors.keys():
            raise InvalidParameter(f"the {direction}s are {_names(given)}; this stage has {_names(tensors)}")
        for name, (data_type, dims) in tensors.items():
            _bind(f"{direction} {name!r}", (data_type, dims), given[name], sizes)
    return sizes


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _bind(tensor: str, expected: tuple[str, Dims], given: Mapping[str, Any], sizes: dict[str, int]) -> None:
    """Compares one tensor of a config with the signature's and notes what the letters stand for in `sizes`."""
    data_type, dims = expected
    given_dims = tuple(int(size) for size in given["dims"])  # Triton gives them as strings in some versions
    for size, actual in zip(dims, given_dims, strict=False):
        if isinstance(size, str) and actual > 0:
            sizes.setdefault(size, actual)
    if given["data_type"] != data_type or given_dims != tuple(sizes.get(str(size), size) for size in dims):
        wanted = ", ".join(f"{size} (={sizes[size]})" if size in sizes else str(size) for size in map(str, dims))
        found = f"{given['data_type']} {list(given_dims)}"
        raise InvalidParameter(f"{tensor} is {found} in the config; this stage needs {data_type} [{wanted}]")


def answer_parsed(
    batch: Sequence[Inputs],
    parse: Callable[[Inputs], Parsed],
    compute: Callable[[Sequence[Parsed]], Iterable[Answer]],
) -> list[Answer]:
    """`compute` on everything that `parse` accepts, in one call; what it refuses is answered by the refusal."""
    parsed = [or_refusal(parse, inputs) for inputs in batch]
    accepted = [one for one in parsed if not isinstance(one, InvalidRequest)]
    answers = iter(compute(accepted) if accepted else ())
    return [one if isinstance(one, InvalidRequest) else next(answers) for one in parsed]


def named_file(folder: Path, key: str, name: str) -> Path:
    """The file of the version folder that the parameter `key` names.

    Raises:
        InvalidParameter: there is no such file, or the name leads out of the folder.
    """
    path = folder / name
    if Path(name).name != name or name in {"", ".."}:
        raise InvalidParameter(f"parameter {key!r} is {name!r}; it must be the name of a file in {folder}")
    if not os.path.isfile(path):  # False of what is no possible name, where Path.is_file raises
        raise InvalidParameter(f"parameter {key!r} is {name!r}; {folder} has no such file")
    return path
