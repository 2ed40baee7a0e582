"""A GGUF file: its metadata, and its tensors dequantised one at a time.

Format: the GGUF specification, versions 2 and 3. The header is read here, because hundreds of thousands of vocabulary
strings take the gguf package many seconds; the block formats of quantised tensors are that package's.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
from torch import Tensor

from trireme_llm.errors import UnsupportedCheckpoint

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT_KEY = "general.alignment"
KNOWN_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K")
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9

Value = int | float | bool | str | list[int] | list[float] | list[bool] | list[str]

KindT = TypeVar("KindT")


@dataclass(frozen=True)
class _TensorPlace:
    shape: tuple[int, ...]  # slowest first, as PyTorch counts
    type: GGMLQuantizationType
    offset: int  # bytes, in the file


class GgufFile:
    """Memory-mapped. Raises UnsupportedCheckpoint for what it cannot read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            cursor = _Cursor(self._bytes)
            self.values, self._places = _read_header(cursor)
        except (struct.error, ValueError, IndexError) as error:
            raise UnsupportedCheckpoint(f"{path} cannot be read as GGUF: {error}") from error
        for name, place in self._places.items():
            if place.offset + _num_bytes(place) > len(self._bytes):
                raise UnsupportedCheckpoint(f"{path} is cut short: the tensor {name!r} lies beyond its end")

    @property
    def tensor_names(self) -> frozenset[str]:
        return frozenset(self._places)

    def string(self, key: str) -> str:
        return self._of_type(key, str)

    def integer(self, key: str) -> int:
        return self._of_type(key, int)

    def strings(self, key: str) -> list[str]:
        return [str(value) for value in self._of_type(key, list)]

    def numbers(self, key: str) -> list[float]:
        return [float(value) for value in self._of_type(key, list)]

    def tensor(self, name: str) -> Tensor:
        """float32, dequantised."""
        place = self._places[name]
        raw = np.frombuffer(self._bytes, dtype=np.uint8, count=_num_bytes(place), offset=place.offset)
        if place.type is GGMLQuantizationType.F32:
            return torch.from_numpy(raw.view(np.float32).copy()).view(place.shape)
        if place.type is GGMLQuantizationType.F16:
            return torch.from_numpy(raw.view(np.float16).astype(np.float32)).view(place.shape)
        rows = raw.reshape(*place.shape[:-1], -1)
        return torch.from_numpy(dequantize(rows, place.type)).view(place.shape)

    def _of_type(self, key: str, kind: type[KindT]) -> KindT:
        value = self.values.get(key)
        if not isinstance(value, kind):
            found = "missing" if value is None else repr(value)[:40]
            raise UnsupportedCheckpoint(f"{self.path}: {key!r} is {found}; {kind.__name__} is needed")
        return value


class _Cursor:
    """Reads little-endian values one after the other."""

    def __init__(self, source: mmap.mmap) -> None:
        self._source = source
        self.position = 0

    def number(self, code: str) -> int | float | bool:
        (value,) = struct.unpack_from(f"<{code}", self._source, self.position)
        self.position += struct.calcsize(code)
        assert isinstance(value, int | float)
        return value

    def count(self, code: str = "Q") -> int:
        return int(self.number(code))

    def string(self) -> str:
        size = self.count()
        if self.position + size > len(self._source):
            raise ValueError("a string runs past the end of the file")
        text = self._source[self.position : self.position + size]
        self.position += size
        return text.decode("utf-8", errors="surrogateescape")

    def value(self, kind: int) -> Value:
        if kind == STRING:
            return self.string()
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind != ARRAY:
            raise ValueError(f"value type {kind} is not known")
        item_kind, size = self.count("I"), self.count()
        if item_kind == STRING:
            return [self.string() for _ in range(size)]
        if item_kind not in NUMBERS:
            raise ValueError(f"array item type {item_kind} is not known")
        layout = f"<{size}{NUMBERS[item_kind]}"
        items = struct.unpack_from(layout, self._source, self.position)
        self.position += struct.calcsize(layout)
        return list(items)


def _read_header(cursor: _Cursor) -> tuple[dict[str, Value], dict[str, _TensorPlace]]:
    magic, version = struct.pack("<I", cursor.count("I")), cursor.count("I")
    if magic != MAGIC or version not in VERSIONS:
        raise ValueError(f"it begins with {magic!r} and version {version}; {MAGIC!r} and {VERSIONS} are known")
    num_tensors, num_values = cursor.count(), cursor.count()
    values: dict[str, Value] = {}
    for _ in range(num_values):
        key = cursor.string()
        values[key] = cursor.value(cursor.count("I"))
    infos = [_tensor_info(cursor) for _ in range(num_tensors)]
    alignment = values.get(ALIGNMENT_KEY, 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"{ALIGNMENT_KEY} is {alignment!r}")
    data = -(-cursor.position // alignment) * alignment
    return values, {name: _TensorPlace(shape, kind, data + offset) for name, shape, kind, offset in infos}


def _tensor_info(cursor: _Cursor) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
    name = cursor.string()
    shape = tuple(cursor.count() for _ in range(cursor.count("I")))[::-1]
    kind = GGMLQuantizationType(cursor.count("I"))
    if kind.name not in KNOWN_TYPES:
        raise ValueError(f"the tensor {name!r} is of type {kind.name}; known: {', '.join(KNOWN_TYPES)}")
    return name, shape, kind, cursor.count()


def _num_bytes(place: _TensorPlace) -> int:
    block, size = GGML_QUANT_SIZES[place.type]
    return prod(place.shape) // block * size
