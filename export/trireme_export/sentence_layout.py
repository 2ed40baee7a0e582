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


MODULES, TRANSFORMER, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
_PREFIX = "sentence_transformers."


@dataclass(frozen=True, kw_only=True)
class SentenceLayout:
    """From token vectors to the vector of a text."""

    pooling: Pooling
    normalize: bool
    dense: str | None = None  # folder of the linear layer between the two
    trained_length: int | None = None  # tokens after which sentence-transformers cuts a text


def read_layout(checkpoint: Checkpoint) -> SentenceLayout:
    """The layout of a sentence encoder.

    Raises:
        CheckpointRefused: it has none, or it has a module or a pooling that the exported graph does not have.
    """
    modules = checkpoint.read_json(MODULES)
    kinds = [_kind(checkpoint, str(module["type"])) for module in modules]
    steps = [kind for kind in kinds if kind in ("Dense", "Normalize")]
    if kinds[:2] != ["Transformer", "Pooling"] or len(kinds) != 2 + len(steps) or steps != sorted(set(steps)):
        raise CheckpointRefused(
            f"{checkpoint.uri}: {MODULES} lists {', '.join(kinds)}; "
            "only Transformer, Pooling and perhaps Dense and Normalize, in this order, can be exported"
        )
    if modules[0]["path"]:
        raise CheckpointRefused(f"{checkpoint.uri}: {MODULES} keeps the encoder in {modules[0]['path']}")
    _check_prompt(checkpoint)
    return SentenceLayout(
        pooling=_pooling(checkpoint, checkpoint.read_json(f"{modules[1]['path']}/config.json")),
        normalize="Normalize" in kinds,
        dense=modules[2]["path"] if "Dense" in kinds else None,
        trained_length=_trained_length(checkpoint),
    )


def _kind(checkpoint: Checkpoint, module: str) -> str:
    """`sentence_transformers.models.Pooling` is Pooling; a class from elsewhere is code that is not run."""
    if not module.startswith(_PREFIX):
        raise CheckpointRefused(f"{checkpoint.uri}: {MODULES} names {module}; only {_PREFIX}* can be exported")
    return module.rpartition(".")[2]


def _trained_length(checkpoint: Checkpoint) -> int | None:
    if TRANSFORMER not in checkpoint.files:
        return None
    config = checkpoint.read_json(TRANSFORMER)
    unknown = sorted(config.keys() - {"max_seq_length", "do_lower_case"})
    if unknown or config.get("do_lower_case"):
        raise CheckpointRefused(
            f"{checkpoint.uri}: {TRANSFORMER}: {', '.join(unknown) or 'do_lower_case is true'}: only max_seq_length "
            "can be followed; a tokenizer lowers case by its own tokenizer.json"
        )
    length: int | None = config.get("max_seq_length")
    return length


def _check_prompt(checkpoint: Checkpoint) -> None:
    """Texts get no prompt; a model that puts one before every text by itself would answer differently."""
    name = checkpoint.read_json(PROMPTS).get("default_prompt_name") if PROMPTS in checkpoint.files else None
    if name is not None:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {PROMPTS}: default_prompt_name is {name!r}, a text put before every text. "
            "Remove it there, and let the callers send it with their texts"
        )


def _pooling(checkpoint: Checkpoint, config: dict[str, Any]) -> Pooling:
    chosen = [key for key, value in config.items() if value and key not in _IRRELEVANT]
    if len(chosen) != 1 or chosen[0] not in _MODES:
        raise CheckpointRefused(
            f"{checkpoint.uri}: pools by {', '.join(chosen) or 'nothing'}; "
            f"exactly one of {', '.join(_MODES)} can be exported"
        )
    return _MODES[chosen[0]]
