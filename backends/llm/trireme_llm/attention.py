"""The attention seam: queries against a paged cache.

`ReferenceAttention` is the definition: one sequence after the other, in plain arithmetic. `PagedAttention` is the
portable fast path: all decodes of a step in a few calls, prompts in tiles that stop at the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from trireme_llm.attention_plan import AttentionPlan, DecodeGroup, PromptChunk

QUERY_TILE = 512  # rows of a prompt per call: bounds the mask, and skips most of what lies after the diagonal


@dataclass(frozen=True)
class LayerCache:
    """Keys and values of one layer, (blocks, block_size, kv_heads, head_dim) each."""

    keys: Tensor
    values: Tensor

    def write(self, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put (tokens, kv_heads, head_dim) rows where `slots` says."""
        self.keys.flatten(0, 1).index_copy_(0, slots, keys)
        self.values.flatten(0, 1).index_copy_(0, slots, values)

    def read(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """(..., count) block numbers -> (..., count * block_size, kv_heads, head_dim) keys and values."""
        return self.keys[blocks].flatten(-4, -3), self.values[blocks].flatten(-4, -3)


@dataclass(frozen=True)
class AttentionShape:
    """What a layer's attention is, beside its tensors."""

    num_kv_heads: int
    scale: float
    window: int | None  # None: all earlier tokens
    softcap: float | None = None  # Gemma 2: scores are squashed by tanh to this size


class Attention(Protocol):
    """Attention of a step's tokens to their own sequences, whose keys and values are already in the cache."""

    def __call__(self, queries: Tensor, cache: LayerCache, plan: AttentionPlan, shape: AttentionShape) -> Tensor:
        """(tokens, heads, head_dim) -> the same shape"""


class ReferenceAttention:
    """Plain arithmetic, for every shape."""

    def __call__(self, queries: Tensor, cache: LayerCache, plan: AttentionPlan, shape: AttentionShape) -> Tensor:
        return torch.cat([self._chunk(queries, cache, chunk, shape) for chunk in plan.chunks])

    def _chunk(self, queries: Tensor, cache: LayerCache, chunk: PromptChunk, shape: AttentionShape) -> Tensor:
        keys, values = cache.read(chunk.blocks)
        groups = queries.shape[1] // shape.num_kv_heads
        keys = keys[: chunk.end].repeat_interleave(groups, dim=1)
        values = values[: chunk.end].repeat_interleave(groups, dim=1)
        scores = torch.einsum("qhd,khd->hqk", queries[chunk.rows], keys).float() * shape.scale
        if shape.softcap is not None:
            scores = torch.tanh(scores / shape.softcap) * shape.softcap
        visible = visible_keys(range(chunk.start, chunk.end), range(chunk.end), shape.window, queries.device)
        weights = scores.masked_fill(~visible, float("-inf")).softmax(dim=-1).to(values.dtype)
        return torch.einsum("hqk,khd->qhd", weights, values)


class PagedAttention:
    """torch's fused attention over gathered blocks; soft-capped scores, which it lacks, go to the reference."""

    def __init__(self) -> None:
        self._reference = ReferenceAttention()

    def __call__(self, queries: Tensor, cache: LayerCache, plan: AttentionPlan, shape: AttentionShape) -> Tensor:
        if shape.softcap is not None:
            return self._reference(queries, cache, plan, shape)
        out = torch.empty_like(queries)
        for group in plan.decode_groups(shape.window):
            out[group.rows] = self._decodes(queries[group.rows], cache, group, shape)
        for chunk in plan.prompts:
            self._prompt(queries, cache, chunk, shape, out)
        return out

    def _decodes(self, queries: Tensor, cache: LayerCache, group: DecodeGroup, shape: AttentionShape) -> Tensor:
        """(rows, heads, head_dim): the heads that share a kv head stand where the query positions would."""
        keys, values = cache.read(group.blocks)
        rows, _, head_dim = queries.shape
        grouped = queries.view(rows, shape.num_kv_heads, -1, head_dim)
        attended = functional.scaled_dot_product_attention(
            grouped, keys.transpose(1, 2), values.transpose(1, 2), attn_mask=group.mask, scale=shape.scale
        )
        return attended.reshape(queries.shape)

    def _prompt(
        self, queries: Tensor, cache: LayerCache, chunk: PromptChunk, shape: AttentionShape, out: Tensor
    ) -> None:
        keys, values = cache.read(chunk.blocks)
        keys, values = keys.transpose(0, 1)[None], values.transpose(0, 1)[None]
        for start in range(chunk.start, chunk.end, QUERY_TILE):
            end = min(start + QUERY_TILE, chunk.end)
            first = 0 if shape.window is None else max(0, start - shape.window + 1)
            rows = slice(chunk.rows.start + start - chunk.start, chunk.rows.start + end - chunk.start)
            attended = functional.scaled_dot_product_attention(
                queries[rows].transpose(0, 1)[None],
                keys[:, :, first:end],
                values[:, :, first:end],
                attn_mask=visible_keys(range(start, end), range(first, end), shape.window, queries.device),
                scale=shape.scale,
                enable_gqa=True,
            )
            out[rows] = attended[0].transpose(0, 1)


def visible_keys(queries: range, keys: range, window: int | None, device: torch.device) -> Tensor:
    """bool (queries, keys): which of these positions see which."""
    query = torch.arange(queries.start, queries.stop, device=device)[:, None]
    key = torch.arange(keys.start, keys.stop, device=device)[None]
    visible = key <= query
    return visible if window is None else visible & (key > query - window)
