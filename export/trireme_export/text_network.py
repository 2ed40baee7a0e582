"""The graph that serves a text encoder: ids and segment numbers in, one row per segment out. Knows no checkpoint.

`attention_mask` carries segment numbers: 1, 2, ... for the texts (or the windows of one text) that share a row, 0 for
padding. Tokens attend only to tokens of their own segment, positions start anew in every segment, and every segment is
pooled by itself, so a row of packed texts gives what each text gives alone. An ordinary 0/1 mask is one segment.
The idea is that of sequence packing without cross-contamination (Krell et al., 2021, arXiv:2107.02027).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from inspect import signature
from typing import NamedTuple

import torch
from torch import Tensor, nn

BLOCKED = -30000.0  # added to the score of a forbidden pair: exp() gives 0, and fp16 and bf16 can hold it


class Pooling(str, Enum):
    """How the tokens of a segment become one vector."""

    MEAN = "mean"
    CLS = "cls"


class Segments(NamedTuple):
    """What the segment numbers say about a batch; S is the largest segment number in it."""

    membership: Tensor  # (batch, S, length) float: 1 where the token belongs to the segment
    positions: Tensor  # (batch, length) int64: place of a token inside its segment, 0 for padding
    attention_bias: Tensor  # (batch, 1, length, length) float: 0 inside a segment, BLOCKED elsewhere
    token_types: Tensor  # (batch, length) int64: 0, or 1 for the second of two texts that are read together


Encode = Callable[[nn.Module, Tensor, Segments], Tensor]  # (encoder, input_ids, segments) -> (batch, length, D)


def encode_from_zero(encoder: nn.Module, input_ids: Tensor, segments: Segments) -> Tensor:
    """The encoder takes a four-dimensional additive mask and positions that begin with 0."""
    return encoder(  # type: ignore[no-any-return]
        input_ids=input_ids,
        attention_mask=segments.attention_bias,
        position_ids=segments.positions,
        **token_types(encoder, segments),
    ).last_hidden_state


def token_types(encoder: nn.Module, segments: Segments) -> dict[str, Tensor]:
    """The type of every token, if the encoder has any. Left out, it is looked up in a table by position."""
    if "token_type_ids" not in signature(encoder.forward).parameters:
        return {}
    return {"token_type_ids": segments.token_types}


class TextNetwork(nn.Module):
    """Encoder, pooling per segment and an optional head, as one exportable graph.

    `encode` is how an encoder is told about segments; what it returns has `last_hidden_state` (batch, length, D).

    Returns (batch, S, D), or (batch, S, labels) with a head; rows of segments that a text does not have are zero.
    """

    def __init__(
        self,
        encoder: nn.Module,
        pooling: Pooling,
        head: nn.Module | None = None,
        encode: Encode = encode_from_zero,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.head = head
        self._encode = encode

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        segments = read_segments(attention_mask, token_type_ids)
        hidden = self._encode(self.encoder, input_ids, segments)
        rows = pool(hidden, segments, self.pooling)
        if self.head is None:
            return rows
        present = segments.membership.amax(dim=2, keepdim=True)  # (batch, S, 1)
        return self.head(rows) * present  # type: ignore[no-any-return]


class TokenNetwork(nn.Module):
    """Encoder and a head for every token, as one exportable graph.

    Returns (batch, length, labels); tokens of padding get zeros.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, encode: Encode = encode_from_zero) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self._encode = encode

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self._encode(self.encoder, input_ids, read_segments(attention_mask))
        return self.head(hidden) * (attention_mask > 0).unsqueeze(2)  # type: ignore[no-any-return]


def read_segments(numbers: Tensor, types: Tensor | None = None) -> Segments:
    """Derive attention, positions and membership from segment numbers (batch, length); without `types` all are 0.

    Padding attends to padding: a row that may attend to nothing would turn into NaN.
    """
    same = numbers.unsqueeze(2) == numbers.unsqueeze(1)  # (batch, length, length)
    attention_bias = torch.where(same, 0.0, BLOCKED).unsqueeze(1)
    count = numbers.max().clamp(min=1).item()
    torch._check(count >= 1)  # type: ignore[no-untyped-call]
    names = torch.arange(1, count + 1, dtype=numbers.dtype, device=numbers.device).reshape(1, -1, 1)
    membership = (numbers.unsqueeze(1) == names).to(torch.float32)
    nth = (membership * membership.cumsum(dim=2)).sum(dim=1)  # 1 for the first token of a segment, 0 for padding
    positions = (nth - 1.0).clamp(min=0.0).to(torch.int64)
    return Segments(membership, positions, attention_bias, torch.zeros_like(numbers) if types is None else types)


def pool(hidden: Tensor, segments: Segments, pooling: Pooling) -> Tensor:
    """One vector per segment: (batch, length, D) -> (batch, S, D); absent segments give zeros."""
    weights = segments.membership
    if pooling is Pooling.CLS:
        weights = weights * (segments.positions == 0).unsqueeze(1)
        return weights @ hidden
    tokens = weights.sum(dim=2, keepdim=True).clamp(min=1.0)  # (batch, S, 1)
    return (weights @ hidden) / tokens
