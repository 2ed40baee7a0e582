"""Each family's encoder is told about segments in its own way: which tokens see each other, and where each stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from trireme_export.families import Placement
from trireme_export.text_network import BLOCKED, Encode, Segments, encode_from_zero, token_types


def positions_after_padding(input_ids: Tensor, segments: Segments, padding: int) -> Tensor:
    """RoBERTa's positions: 1, 2, ... over the tokens of a text that are not padding, plus the index of padding.

    A token of padding inside a text (somebody wrote "<pad>") takes part in attention, but has the position of padding.
    """
    counted = segments.membership * (input_ids != padding).unsqueeze(1)
    nth = (counted * counted.cumsum(dim=2)).sum(dim=1)  # (batch, length)
    return nth.to(input_ids.dtype) + padding


def encode_after_padding(encoder: Any, input_ids: Tensor, segments: Segments) -> Tensor:
    """RoBERTa takes an additive mask, and positions of its own."""
    positions = positions_after_padding(input_ids, segments, encoder.embeddings.padding_idx)
    hidden: Tensor = encoder(
        input_ids=input_ids,
        attention_mask=segments.attention_bias,
        position_ids=positions,
        **token_types(encoder, segments),
    ).last_hidden_state
    return hidden


class DistanceTable(nn.Module):
    """A bucket for the distance of two tokens of a row, looked up: (length, length) for a length.

    The library computes it with a logarithm that it rounds. Runtimes round theirs otherwise where that comes close to
    a whole number, which gives a token another bucket than the original has. Distances beyond the table are those of
    tokens of different texts, which do not see each other.
    """

    buckets: Tensor  # (2 * positions - 1,): of the distances -(positions - 1) to positions - 1

    def __init__(self, buckets: Tensor) -> None:
        super().__init__()
        self.register_buffer("buckets", buckets)

    def forward(self, length: int) -> Tensor:
        """Row `i` and column `j` are for the distance `i - j`."""
        place = torch.arange(length)
        most = self.buckets.shape[0] // 2
        distances = place.unsqueeze(1) - place.unsqueeze(0)
        rows = (distances.clamp(-most, most) + most).flatten()
        return self.buckets.index_select(0, rows).reshape(length, length)  # indexing would become a GatherND


class EncodePairs(nn.Module):
    """DeBERTa's embeddings are zeroed where there is padding, and its attention takes a 0/1 mask of pairs."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        square = encoder.encoder.get_rel_pos(torch.zeros(1, encoder.config.max_position_embeddings, 1))
        self.table = None
        if square is not None:  # (1, positions, positions); None without relative attention
            self.table = DistanceTable(torch.cat([square[0, 0, 1:].flip(0), square[0, :, 0]]))

    def forward(self, encoder: Any, input_ids: Tensor, segments: Segments) -> Tensor:
        tokens = segments.membership.sum(dim=1)  # (batch, length): 0 for padding
        embedded = encoder.embeddings(
            input_ids=input_ids, token_type_ids=segments.token_types, position_ids=segments.positions, mask=tokens
        )
        pairs = (segments.attention_bias == 0).to(tokens.dtype)
        buckets = None if self.table is None else self.table(input_ids.shape[1]).unsqueeze(0)
        hidden: Tensor = encoder.encoder(embedded, pairs, relative_pos=buckets).last_hidden_state
        return hidden


class EncodeAfterPaddingByDistance(nn.Module):
    """MPNet has RoBERTa's positions, and adds a learned number for the distance of two tokens."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        positions = encoder.config.max_position_embeddings
        distances = torch.arange(1 - positions, positions)
        self.table = DistanceTable(encoder.encoder.relative_position_bucket(-distances))

    def forward(self, encoder: Any, input_ids: Tensor, segments: Segments) -> Tensor:
        positions = positions_after_padding(input_ids, segments, encoder.embeddings.padding_idx)
        hidden: Tensor = encoder.embeddings(input_ids=input_ids, position_ids=positions)
        buckets = self.table(input_ids.shape[1])  # (length, length)
        by_distance = encoder.encoder.relative_attention_bias(buckets).permute(2, 0, 1).unsqueeze(0)
        for layer in encoder.encoder.layer:
            hidden = layer(hidden, segments.attention_bias, by_distance)[0]
        return hidden


def encode_sliding(encoder: Any, input_ids: Tensor, segments: Segments) -> Tensor:
    """ModernBERT's local layers see `sliding_window` tokens to either side; a segment is contiguous, so in its row."""
    place = torch.arange(input_ids.shape[1])
    near = (place.unsqueeze(1) - place.unsqueeze(0)).abs() <= encoder.config.sliding_window  # (length, length)
    masks = {
        "full_attention": segments.attention_bias,
        "sliding_attention": torch.where(near, segments.attention_bias, BLOCKED),
    }
    hidden: Tensor = encoder(
        input_ids=input_ids, attention_mask=masks, position_ids=segments.positions
    ).last_hidden_state
    return hidden


_FUNCTIONS: Mapping[Placement, Encode] = {
    Placement.FROM_ZERO: encode_from_zero,
    Placement.AFTER_PADDING: encode_after_padding,
    Placement.SLIDING: encode_sliding,
}
_WITH_TABLE: Mapping[Placement, Callable[[nn.Module], Encode]] = {
    Placement.AFTER_PADDING_BY_DISTANCE: EncodeAfterPaddingByDistance,
    Placement.PAIRS: EncodePairs,
}


def encode_of(placement: Placement, encoder: nn.Module) -> Encode:
    """How `encoder` is told about segments."""
    return _FUNCTIONS[placement] if placement in _FUNCTIONS else _WITH_TABLE[placement](encoder)
