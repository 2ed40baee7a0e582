"""The header of a safetensors file: every tensor's name, dtype, shape and place. Reads no tensor.

Format: https://github.com/huggingface/safetensors#format. Whatever its library refuses is refused here, and a name that
is given twice as well, which the library answers with one of the two.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trireme_export.errors import CheckpointRefused
from trireme_export.stored_tensor import StoredTensor

BITS = {
    **{"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6},
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
MAX_HEADER_BYTES = 100_000_000  # the library's own limit
_LENGTH = struct.Struct("<Q")  # before the header: its length
_LARGEST = 2**63 - 1
_METADATA = "__metadata__"


@dataclass(frozen=True, kw_only=True)
class SafetensorsHeader:
    tensors: tuple[StoredTensor, ...]  # in the order of their bytes
    metadata: Mapping[str, str]


def read_header(path: Path) -> SafetensorsHeader:
    """The header of the file at `path`.

    Raises:
        CheckpointRefused: the file is cut short or too long, or its header is damaged or contradicts itself.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = _header_length(path.name, file.read(_LENGTH.size), size)
            text = file.read(length)
    except OSError as error:
        raise CheckpointRefused(f"{path.name}: cannot be read: {error.strerror}") from error
    content = _parse(path.name, text)
    metadata = _metadata(path.name, content.pop(_METADATA, None))
    tensors = [_tensor(path.name, name, fields) for name, fields in content.items()]
    tensors.sort(key=lambda each: (each.begin, each.num_bytes))
    _check_places(path.name, tensors, size - _LENGTH.size - length)
    return SafetensorsHeader(tensors=tuple(tensors), metadata=metadata)


def _header_length(place: str, start: bytes, size: int) -> int:
    if len(start) < _LENGTH.size:
        raise CheckpointRefused(f"{place}: cut short: {size} bytes, and its header's length alone takes 8")
    (length,) = _LENGTH.unpack(start)
    if length > size - _LENGTH.size:
        raise CheckpointRefused(f"{place}: its header is said to have {length} bytes; the file has {size}")
    if length > MAX_HEADER_BYTES:
        raise CheckpointRefused(f"{place}: its header has {length} bytes; at most {MAX_HEADER_BYTES} are read")
    return int(length)


def _parse(place: str, text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise CheckpointRefused(f"{place}: its header is damaged: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointRefused(f"{place}: its header is not a JSON object")
    return content


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in pairs:
        name.encode()  # a ValueError for half of a surrogate pair, which no file of ours could name again
        if name in content:
            raise ValueError(f"the name {name!r} is given twice")
        content[name] = value
    return content


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _metadata(place: str, value: object) -> dict[str, str]:
    content = {} if value is None else value
    if not isinstance(content, dict) or not all(isinstance(each, str) for each in content.values()):
        raise CheckpointRefused(f"{place}: {_METADATA} is not an object of texts")
    return content


def _tensor(place: str, name: str, fields: object) -> StoredTensor:
    match fields:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]} if dtype in BITS:
            if all(_is_count(number) for number in (*shape, begin, end)):
                tensor = StoredTensor(name=name, dtype=dtype, shape=tuple(shape), begin=begin, num_bytes=end - begin)
                _check_size(place, tensor)
                return tensor
    known = f"a dtype ({', '.join(BITS)}), a shape and two data_offsets"
    raise CheckpointRefused(f"{place}: the tensor {name!r} is not described by {known}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _check_size(place: str, tensor: StoredTensor) -> None:
    elements = 1
    for dimension in tensor.shape:
        elements *= dimension
        if elements > _LARGEST:
            raise CheckpointRefused(f"{place}: the tensor {tensor.name!r} is too large to be true: {tensor.shape}")
    if elements * BITS[tensor.dtype] != tensor.num_bytes * 8:
        raise CheckpointRefused(
            f"{place}: the tensor {tensor.name!r} has {tensor.num_bytes} bytes; "
            f"{elements} numbers of {tensor.dtype} take {elements * BITS[tensor.dtype] / 8:g}"
        )


def _check_places(place: str, tensors: Sequence[StoredTensor], num_bytes: int) -> None:
    """The tensors, in the order of their bytes, fill the data without overlap, gap or rest."""
    end, before = 0, "the header"
    for tensor in tensors:
        if tensor.begin < end:
            raise CheckpointRefused(f"{place}: the tensors {before!r} and {tensor.name!r} share bytes")
        if tensor.begin > end:
            raise CheckpointRefused(
                f"{place}: the {tensor.begin - end} bytes before {tensor.name!r} belong to no tensor"
            )
        end, before = tensor.begin + tensor.num_bytes, tensor.name
    if end > num_bytes:
        raise CheckpointRefused(f"{place}: cut short: its tensors take {end} bytes, and it has {num_bytes} for them")
    if end < num_bytes:
        raise CheckpointRefused(f"{place}: its last {num_bytes - end} bytes belong to no tensor")
