"""A tensor as a weights file describes it, without its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """`dtype` in the words of its file: F32 or BF16 in safetensors, Q4_K in GGUF."""

    name: str
    dtype: str
    shape: tuple[int, ...]  # slowest dimension first
    begin: int  # bytes from the first tensor's
    num_bytes: int

    @property
    def num_elements(self) -> int:
        return prod(self.shape)
