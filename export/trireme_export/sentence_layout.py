"""What a sentence-transformers folder says of its encoder: how tokens are pooled, whether vectors are normalised.

The layout is that of the sentence-transformers library: `modules.json` lists the modules and their folders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.text_network import Pooling

_MODES = {"pooling_mode_mean_tokens": Pooling.MEAN, "pooling_mode_cls_token": Pooling.CLS}
_IRRELEVANT = {"word_embedding_dimension", "include_prompt"}  # no prompt is put before the texts


@dataclass(frozen=True, kw_only=True)
class SentenceLayout:
    """From token vectors to the vector of a text."""

    pooling: Pooling
    normalize: bool


def read_layout(checkpoint: Checkpoint) -> SentenceLayout:
    """The layout of a sentence encoder.

    Raises:
        CheckpointRefused: it has none, or it has a module or a pooling that the exported graph does not have.
    """
    modules = checkpoint.read_json("modules.json")
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise CheckpointRefused(
            f"{checkpoint.uri}: modules.json lists {', '.join(kinds)}; "
            "only Transformer, Pooling and perhaps Normalize, in this order, can be exported"
        )
    if modules[0]["path"]:
        raise CheckpointRefused(f"{checkpoint.uri}: modules.json keeps the encoder in {modules[0]['path']}")
    pooling = _pooling(checkpoint, checkpoint.read_json(f"{modules[1]['path']}/config.json"))
    return SentenceLayout(pooling=pooling, normalize=kinds[-1] == "Normalize")


def _pooling(checkpoint: Checkpoint, config: dict[str, Any]) -> Pooling:
    chosen = [key for key, value in config.items() if value and key not in _IRRELEVANT]
    if len(chosen) != 1 or chosen[0] not in _MODES:
        raise CheckpointRefused(
            f"{checkpoint.uri}: pools by {', '.join(chosen) or 'nothing'}; "
            f"exactly one of {', '.join(_MODES)} can be exported"
        )
    return _MODES[chosen[0]]
