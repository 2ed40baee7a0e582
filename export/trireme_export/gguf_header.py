"""The header of a GGUF file: its metadata, and every tensor's name, type, shape and place. Reads no tensor.

Format: the GGUF specification, versions 2 and 3. The header is read here, because the gguf package takes many seconds
for a large vocabulary and fills the memory for an array that is said to be longer than the file; what a quantised type
is called and how many bytes its blocks take is that package's to say.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from trireme_export.errors import CheckpointRefused
from trireme_export.stored_tensor import StoredTensor

VERSIONS = (2, 3)
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 8
_MAX_HEADER_BYTES = 2**27  # a vocabulary of 256,000 tokens with its merges takes a tenth of it
_LARGEST = 2**63 - 1

Value: TypeAlias = "int | float | bool | str | list[Any]"
BlockTypes: TypeAlias = Mapping[int, tuple[str, int, int]]  # number -> name, elements and bytes of a block


@dataclass(frozen=True, kw_only=True)
class GgufHeader:
    metadata: Mapping[str, Value]
    tensors: tuple[StoredTensor, ...]


def read_gguf_header(path: Path) -> GgufHeader:
    """The header of the file at `path`.

    Raises:
        CheckpointRefused: the file is cut short, its header is damaged, or the package gguf is not installed.
    """
    types = _block_types()
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _read(_Cursor(content), types)
    except OSError as error:
        raise CheckpointRefused(f"{path.name}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointRefused(f"{path.name}: cannot be read as GGUF: {error}") from error


def _block_types() -> BlockTypes:
    try:
        from gguf import GGML_QUANT_SIZES
    except ImportError as error:
        raise CheckpointRefused("a GGUF file is read with the package gguf: pip install 'gguf>=0.19'") from error
    return {int(kind): (str(kind.name), *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}


class _Cursor:
    """Reads little-endian values one after the other. Raises ValueError at the end of the file."""

    def __init__(self, source: mmap.mmap) -> None:
        self._source = source
        self.file_size = len(source)
        self.position = 0

    def _bytes(self, size: int) -> bytes:
        end = self.position + size
        if end > self.file_size:
            raise ValueError(f"its header runs past the end of the file: {end} of {self.file_size} bytes")
        if end > _MAX_HEADER_BYTES:
            raise ValueError(f"its header has more than {_MAX_HEADER_BYTES} bytes")
        content = self._source[self.position : end]
        self.position = end
        return content

    def numbers(self, code: str, count: int) -> list[Any]:
        content = self._bytes(count * struct.calcsize(f"<{code}"))
        return list(struct.unpack(f"<{count}{code}", content))

    def count(self, code: str = "Q") -> int:
        return int(self.numbers(code, 1)[0])

    def string(self) -> str:
        # single bytes are tokens of some vocabularies
        return self._bytes(self.count()).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Value:
        if kind == _STRING:
            return self.string()
        if kind in _NUMBERS:
            return self.numbers(_NUMBERS[kind], 1)[0]  # type: ignore[no-any-return]
        if kind != _ARRAY:
            raise ValueError(f"a value of the unknown type {kind}")
        item_kind, size = self.count("I"), self.count()
        if item_kind == _STRING:
            return [self.string() for _ in range(size)]  # ends with the file at the latest
        if item_kind not in _NUMBERS:
            raise ValueError(f"an array of the unknown type {item_kind}")
        return self.numbers(_NUMBERS[item_kind], size)


def _read(cursor: _Cursor, types: BlockTypes) -> GgufHeader:
    magic, version = struct.pack("<I", cursor.count("I")), cursor.count("I")
    if magic != b"GGUF" or version not in VERSIONS:
        raise ValueError(f"it begins with {magic!r} and version {version}; b'GGUF' and {VERSIONS} are known")
    num_tensors, num_values = cursor.count(), cursor.count()
    metadata: dict[str, Value] = {}
    for _ in range(num_values):
        key = cursor.string()
        if key in metadata:
            raise ValueError(f"the key {key!r} is given twice")
        metadata[key] = cursor.value(cursor.count("I"))
    tensors: dict[str, StoredTensor] = {}
    for _ in range(num_tensors):
        tensor = _tensor(cursor, types)
        if tensor.name in tensors:
            raise ValueError(f"the tensor {tensor.name!r} is given twice")
        tensors[tensor.name] = tensor
    _check_places(list(tensors.values()), cursor, _alignment(metadata))
    return GgufHeader(metadata=metadata, tensors=tuple(tensors.values()))


def _tensor(cursor: _Cursor, types: BlockTypes) -> StoredTensor:
    name, dimensions = cursor.string(), cursor.count("I")
    if dimensions > _MAX_DIMENSIONS:
        raise ValueError(f"the tensor {name!r} has {dimensions} dimensions")
    shape = tuple(cursor.count() for _ in range(dimensions))[::-1]
    number, begin = cursor.count("I"), cursor.count()
    if number not in types:
        raise ValueError(f"the tensor {name!r} has the unknown type {number}; a newer gguf package may know it")
    kind, block, block_bytes = types[number]
    tensor = StoredTensor(name=name, dtype=kind, shape=shape, begin=begin, num_bytes=0)
    elements, row = tensor.num_elements, shape[-1] if shape else 1
    if elements > _LARGEST or row % block:
        raise ValueError(f"the tensor {name!r} of {kind} cannot have the shape {list(shape)}: blocks have {block}")
    num_bytes = elements // block * block_bytes
    return StoredTensor(name=name, dtype=kind, shape=shape, begin=begin, num_bytes=num_bytes)


def _alignment(metadata: Mapping[str, Value]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"general.alignment is {alignment!r}")
    return alignment


def _check_places(tensors: Sequence[StoredTensor], cursor: _Cursor, alignment: int) -> None:
    room = cursor.file_size - -(-cursor.position // alignment) * alignment
    for tensor in tensors:
        if tensor.begin + tensor.num_bytes > room:
            raise ValueError(f"it is cut short: the tensor {tensor.name!r} lies beyond its end")
    placed = sorted((each for each in tensors if each.num_bytes), key=lambda each: each.begin)
    for before, after in pairwise(placed):
        if after.begin < before.begin + before.num_bytes:
            raise ValueError(f"the tensors {before.name!r} and {after.name!r} share bytes")
