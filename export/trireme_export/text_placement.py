"""Each family's encoder is told about segments in its own way: which tokens see each other, and where each stands."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from trireme_export.families import Placement
from trireme_export.text_network import Encode, Segments, encode_from_zero


def encode_after_padding(encoder: nn.Module, input_ids: Tensor, segments: Segments) -> Tensor:
    """RoBERTa's positions: 1, 2, ... over the tokens of a text that are not padding, plus the index of padding.

    A token of padding inside a text (somebody wrote "<pad>") takes part in attention, but has the position of padding.
    """
    padding: int = encoder.embeddings.padding_idx  # type: ignore[union-attr, assignment]
    counted = segments.membership * (input_ids != padding).unsqueeze(1)
    nth = (counted * counted.cumsum(dim=2)).sum(dim=1)  # (batch, length)
    return encoder(  # type: ignore[no-any-return]
        input_ids=input_ids,
        attention_mask=segments.attention_bias,
        position_ids=nth.to(input_ids.dtype) + padding,
    ).last_hidden_state


ENCODE: Mapping[Placement, Encode] = {
    Placement.FROM_ZERO: encode_from_zero,
    Placement.AFTER_PADDING: encode_after_padding,
}
