"""How long a window of a checkpoint's texts may be: by its positions, and by what its files say of its training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from trireme_export.catalogue import TextWindows
from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.families import Placement
from trireme_export.intake import family_of
from trireme_export.text_encoder import library_config
from trireme_export.tokenizer_facts import MIN_WINDOW, TOKENIZER_CONFIG, model_max_length

MAX_WINDOWS = 256  # of one text; the stand-in answers with at most as many for each of a batch of 64
MAX_TOKENS = 512 * MAX_WINDOWS  # of one text
OVERLAP_SHARE = 8  # an eighth of a window is shared with the next


def position_count(config: Mapping[str, Any]) -> int:
    """How many tokens of a text have a position, by a checkpoint's `config.json`."""
    library = library_config(config)
    count: int = library.max_position_embeddings
    after_padding = family_of(config).placement in (Placement.AFTER_PADDING, Placement.AFTER_PADDING_BY_DISTANCE)
    return count - library.pad_token_id - 1 if after_padding else count


def decide_windows(
    checkpoint: Checkpoint, positions: int, combine: Literal["mean", "max"] | None, trained_length: int | None = None
) -> TextWindows:
    """Windows as long as the positions, `trained_length` and the tokenizer's `model_max_length` allow."""
    limits = [positions, trained_length or positions, model_max_length(checkpoint) or positions]
    length = min(limits)
    if not MIN_WINDOW <= length <= MAX_TOKENS:
        raise CheckpointRefused(
            f"{checkpoint.uri}: a window would have {length} tokens, by the positions in config.json and the limits in "
            f"the tokenizer's files; {MIN_WINDOW} to {MAX_TOKENS} can be exported: set model_max_length in "
            f"{TOKENIZER_CONFIG} to what the model was trained with"
        )
    return TextWindows(
        max_length=length,
        overlap=length // OVERLAP_SHARE,
        max_windows=min(MAX_WINDOWS, max(1, MAX_TOKENS // length)),
        combine=combine,
    )
