"""Tensors of a checkpoint by name, each used exactly once or known to be needless."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from trireme_llm.errors import UnsupportedCheckpoint

NEEDLESS = ("rotary_emb.inv_freq",)  # computed from the configuration


class WeightSource(Protocol):
    """Where tensors come from."""

    @property
    def names(self) -> frozenset[str]: ...

    def get(self, name: str) -> Tensor:
        """A view of the mapped file where that is possible."""


class SafetensorsSource:
    """model.safetensors, or the shards that model.safetensors.index.json lists, memory-mapped."""

    def __init__(self, folder: Path) -> None:
        with _translated(folder):
            self._files = [safe_open(path, framework="pt") for path in _shards(folder)]
        self._file_of = {name: file for file in self._files for name in _names(file)}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._file_of)

    def get(self, name: str) -> Tensor:
        tensor = self._file_of[name].get_tensor(name)  # type: ignore[no-untyped-call]
        assert isinstance(tensor, Tensor)
        return tensor


class Weights:
    """Hands tensors of the expected shape to whoever builds the model and remembers which are left."""

    def __init__(self, source: WeightSource, dtype: torch.dtype) -> None:
        self._source = source
        self._dtype = dtype
        self._left = set(source.names)

    def __contains__(self, name: str) -> bool:
        return name in self._source.names

    def take(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """The tensor in the model's type, unless another is asked for. Raises UnsupportedCheckpoint."""
        if name not in self._left:
            raise UnsupportedCheckpoint(f"the checkpoint lacks the tensor {name!r}")
        self._left.remove(name)
        tensor = self._source.get(name)
        if tuple(tensor.shape) != shape:
            raise UnsupportedCheckpoint(f"tensor {name!r} has the shape {tuple(tensor.shape)}; {shape} is needed")
        return tensor.to(dtype or self._dtype)

    def skip(self, name: str) -> None:
        """This one is a copy of another."""
        self._left.discard(name)

    def refuse_left(self) -> None:
        left = sorted(name for name in self._left if not name.endswith(NEEDLESS))
        if left:
            raise UnsupportedCheckpoint(f"{len(left)} tensors have no place: {', '.join(left[:8])}")


def _names(file: safe_open) -> list[str]:
    return list(file.keys())  # type: ignore[no-untyped-call]


def _shards(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        if any(Path(name).name != name for name in names):
            raise UnsupportedCheckpoint(f"{index} names files outside its folder")
        return [folder / name for name in names]
    single = folder / "model.safetensors"
    if not single.exists():
        raise UnsupportedCheckpoint(f"{folder} has neither model.safetensors nor model.safetensors.index.json")
    return [single]


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, FileNotFoundError) as error:
        raise UnsupportedCheckpoint(f"the weights in {folder} cannot be read: {error}") from error
