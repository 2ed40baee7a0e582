"""Tensors summed up by the block of the network they belong to, told by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trireme_export.stored_tensor import StoredTensor


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of the network, and how many others have tensors of the same names, shapes and dtypes."""

    name: str
    others: int
    tensors: tuple[StoredTensor, ...]  # of the first


def blocks_of(tensors: Sequence[StoredTensor]) -> list[Block]:
    """In the order in which they first appear in the file."""
    by_name: dict[str, list[StoredTensor]] = {}
    for tensor in sorted(tensors, key=lambda each: _natural(each.name)):
        by_name.setdefault(block_name(tensor.name), []).append(tensor)
    alike: dict[object, list[str]] = {}
    for name, members in by_name.items():
        alike.setdefault(_likeness(name, members), []).append(name)
    return [Block(name=names[0], others=len(names) - 1, tensors=tuple(by_name[names[0]])) for names in alike.values()]


def block_name(name: str) -> str:
    """`encoder.layer.3` of `encoder.layer.3.output.bias`; without a number what is before the layer's own name."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        if _is_number(part):
            return ".".join(parts[: place + 1])
    return ".".join(parts[: max(1, len(parts) - 2)])


def count_dtypes(tensors: Sequence[StoredTensor]) -> dict[str, int]:
    """dtype -> numbers stored in it, the commonest first."""
    counts: Counter[str] = Counter()
    for tensor in tensors:
        counts[tensor.dtype] += tensor.num_elements
    return dict(counts.most_common())


def _likeness(name: str, tensors: Sequence[StoredTensor]) -> object:
    stem, _, last = name.rpartition(".")
    members = tuple((each.name.removeprefix(name), each.shape, each.dtype) for each in tensors)
    return stem if _is_number(last) else name, members


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Sorts layer 10 after layer 9."""
    return [(True, int(part), part) if _is_number(part) else (False, 0, part) for part in name.split(".")]


def _is_number(part: str) -> bool:
    return part.isdecimal() and len(part) <= 9  # no network has more layers, and Python refuses to read 4,300 digits
