"""Blocks of the key-value cache: who holds them, and which content is in them. No tensors."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence


def chain_hash(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """The name of a full block: its tokens and, through `parent`, all that precedes it.

    The chain starts with a name of the model and adapter, so equal hashes mean equal keys and values.
    """
    return hashlib.blake2b(array("q", token_ids).tobytes(), digest_size=16, key=parent).digest()


class BlockPool:
    """A fixed number of blocks, counted by reference. A block nobody holds keeps its content until it is reused."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._references = [0] * num_blocks
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))  # next to be reused first
        self._hash_of: list[bytes | None] = [None] * num_blocks
        self._block_of: dict[bytes, int] = {}

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Blocks whose content can be found by hash, held or not."""
        return len(self._block_of)

    def find(self, hashes: Iterable[bytes]) -> list[int]:
        """The blocks of the longest known prefix of a chain, not yet held."""
        found = []
        for block_hash in hashes:
            block = self._block_of.get(block_hash)
            if block is None:
                break
            found.append(block)
        return found

    def num_idle(self, blocks: Iterable[int]) -> int:
        """How many of these nobody holds: holding them takes them from the free ones."""
        return sum(self._references[block] == 0 for block in blocks)

    def hold(self, blocks: Iterable[int]) -> None:
        """Share blocks that `find` gave."""
        for block in blocks:
            self._references[block] += 1
            self._free.pop(block, None)

    def take(self, count: int) -> list[int]:
        """Fresh blocks; the least recently used content is forgotten."""
        assert count <= self.num_free, "the scheduler asks for no more than there is"
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self._forget(block)
            self._references[block] = 1
        return taken

    def release(self, blocks: Sequence[int]) -> None:
        """Give up one hold on each. The end of a prefix is reused before its beginning."""
        for block in reversed(blocks):
            self._references[block] -= 1
            assert self._references[block] >= 0, f"block {block} was released more often than held"
            if self._references[block] == 0:
                self._free[block] = None
                if self._hash_of[block] is None:
                    self._free.move_to_end(block, last=False)

    def publish(self, block: int, block_hash: bytes) -> None:
        """Let others find a block that is full and computed. The first block of a content keeps the name."""
        if self._hash_of[block] is None and block_hash not in self._block_of:
            self._hash_of[block] = block_hash
            self._block_of[block_hash] = block

    def forget_all(self) -> None:
        """Drop every name: the contents can no longer be trusted."""
        for block in range(self.num_blocks):
            self._forget(block)

    def _forget(self, block: int) -> None:
        block_hash = self._hash_of[block]
        if block_hash is not None:
            del self._block_of[block_hash]
            self._hash_of[block] = None
