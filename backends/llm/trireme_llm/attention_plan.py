"""Where a step's tokens are: rows in the batch, positions in their sequences, slots in the cache.

Made once per step from the scheduler's chunks and used by every layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trireme_llm.sequence import Chunk

IntArray = npt.NDArray[np.int64]
MAX_GROUP_TOKENS = 32_768  # keys that one call of decode attention gathers, padding included
GROUP_WASTE = 2  # a group's longest context is at most so many times its shortest, or four blocks


@dataclass(frozen=True)
class PromptChunk:
    """Consecutive tokens of one sequence."""

    rows: slice  # in the step
    start: int
    end: int
    blocks: Tensor  # int64 (ceil(end / block_size),)


@dataclass(frozen=True)
class DecodeGroup:
    """Single tokens of sequences of similar length."""

    rows: Tensor  # int64 (sequences,)
    blocks: Tensor  # int64 (sequences, count), padded with any block
    mask: Tensor  # bool (sequences, 1, 1, count * block_size)


@dataclass
class AttentionPlan:
    """One step."""

    block_size: int
    token_ids: Tensor  # int64 (tokens,), and so the next three
    positions: Tensor
    rope_lengths: Tensor  # the sequence length each token is rotated for
    slots: Tensor
    sampled_rows: Tensor  # int64 (chunks that reach their last token,)
    chunks: list[PromptChunk]
    num_decodes: int  # the first chunks, of one token each
    _groups: dict[int | None, list[DecodeGroup]] = field(default_factory=dict)

    @property
    def prompts(self) -> list[PromptChunk]:
        return self.chunks[self.num_decodes :]

    def decode_groups(self, window: int | None) -> list[DecodeGroup]:
        """The step's decodes, grouped for layers with this window."""
        if window not in self._groups:
            self._groups[window] = self._make_groups(window)
        return self._groups[window]

    def _make_groups(self, window: int | None) -> list[DecodeGroup]:
        decodes = self.chunks[: self.num_decodes]
        first_block = [0 if window is None else max(0, c.end - window) // self.block_size for c in decodes]
        counts = [len(c.blocks) - first for c, first in zip(decodes, first_block, strict=True)]
        groups: list[list[int]] = []
        for row in sorted(range(len(decodes)), key=counts.__getitem__):
            if groups and self._joins(counts[row], counts[groups[-1][0]], len(groups[-1])):
                groups[-1].append(row)
            else:
                groups.append([row])
        return [self._group(group, first_block, max(counts[row] for row in group), window) for group in groups]

    def _joins(self, count: int, shortest: int, size: int) -> bool:
        similar = count <= max(GROUP_WASTE * shortest, 4)
        return similar and (size + 1) * count * self.block_size <= MAX_GROUP_TOKENS

    def _group(self, rows: list[int], first_block: list[int], count: int, window: int | None) -> DecodeGroup:
        blocks = np.zeros((len(rows), count), dtype=np.int64)
        low = np.zeros((len(rows), 1), dtype=np.int64)
        high = np.zeros((len(rows), 1), dtype=np.int64)
        for index, row in enumerate(rows):
            chunk, first = self.chunks[row], first_block[row]
            held = chunk.blocks[first:].numpy()
            blocks[index, : len(held)] = held
            high[index] = chunk.end - first * self.block_size
            low[index] = 0 if window is None else high[index] - window
        keys = np.arange(count * self.block_size)[None]
        mask = (keys >= low) & (keys < high)
        device = self.slots.device
        return DecodeGroup(
            rows=torch.tensor(rows, device=device),
            blocks=torch.from_numpy(blocks).to(device),
            mask=torch.from_numpy(mask)[:, None, None].to(device),
        )


def plan_step(chunks: list[Chunk], block_size: int, device: torch.device) -> AttentionPlan:
    """Lay a step's chunks out in rows, in their order."""
    counts = [chunk.count for chunk in chunks]
    ends = np.cumsum(counts)
    positions = np.concatenate([np.arange(chunk.start, chunk.end) for chunk in chunks])
    tables = [np.array(chunk.sequence.blocks, dtype=np.int64) for chunk in chunks]
    slots = [_slots(table, chunk, block_size) for table, chunk in zip(tables, chunks, strict=True)]
    token_ids = [np.array(c.sequence.tokens[c.start : c.end], dtype=np.int64) for c in chunks]
    num_prompt = np.repeat([chunk.sequence.num_prompt_tokens for chunk in chunks], counts)
    sampled = [end - 1 for chunk, end in zip(chunks, ends, strict=True) if chunk.samples]
    num_decodes = next((i for i, chunk in enumerate(chunks) if chunk.count > 1), len(chunks))
    laid_out = [
        PromptChunk(
            rows=slice(int(end) - chunk.count, int(end)),
            start=chunk.start,
            end=chunk.end,
            blocks=torch.from_numpy(table[: -(-chunk.end // block_size)]),
        )
        for chunk, table, end in zip(chunks, tables, ends, strict=True)
    ]
    return AttentionPlan(
        block_size=block_size,
        token_ids=torch.from_numpy(np.concatenate(token_ids)).to(device),
        positions=torch.from_numpy(positions).to(device),
        rope_lengths=torch.from_numpy(np.maximum(positions + 1, num_prompt)).to(device),
        slots=torch.from_numpy(np.concatenate(slots)).to(device),
        sampled_rows=torch.tensor(sampled, dtype=torch.int64, device=device),
        chunks=laid_out,
        num_decodes=num_decodes,
    )


def _slots(table: IntArray, chunk: Chunk, block_size: int) -> IntArray:
    positions = np.arange(chunk.start, chunk.end)
    return np.asarray(table[positions // block_size] * block_size + positions % block_size)
