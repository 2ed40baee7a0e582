"""Tiny random checkpoints of every family, written by the library itself: weights, config and tokenizer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    BertConfig,
    BertTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)

from .conftest import write_json

WORDS = ["a", "the", "three", "banks", "of", "oars", "row", "##s", "##ed", "moved", "as", "one", "dawn", "trireme"]
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
LABELS = ("calm", "storm", "fog")


def word_pieces(*special: str) -> dict[str, int]:
    """A vocabulary of WordPiece that can spell any word of Latin letters."""
    pieces = [*special, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    return {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}


@dataclass(frozen=True, kw_only=True)
class TinyFamily:
    config: type[PreTrainedConfig]
    tokenizer: Callable[[], PreTrainedTokenizerBase]
    sizes: dict[str, Any] = field(default_factory=dict)  # besides those of SIZES


def bert_tokenizer() -> PreTrainedTokenizerBase:
    return BertTokenizer(vocab=word_pieces("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))


SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}

TINY_FAMILIES = {
    "bert": TinyFamily(config=BertConfig, tokenizer=bert_tokenizer),
}


def tiny_config(name: str, tokenizer: PreTrainedTokenizerBase, **options: Any) -> PreTrainedConfig:
    family = TINY_FAMILIES[name]
    return family.config(vocab_size=len(tokenizer), **(SIZES | family.sizes | options))


def write_tiny_classifier(folder: Path, name: str, labels: tuple[str, ...] = LABELS, **options: Any) -> None:
    tokenizer = TINY_FAMILIES[name].tokenizer()
    names = dict(enumerate(labels))
    options |= {"id2label": names, "label2id": {label: index for index, label in names.items()}}
    _write(folder, AutoModelForSequenceClassification, tokenizer, tiny_config(name, tokenizer, **options))


def write_tiny_encoder(folder: Path, name: str) -> None:
    tokenizer = TINY_FAMILIES[name].tokenizer()
    _write(folder, AutoModel, tokenizer, tiny_config(name, tokenizer))


def write_sentence_layout(folder: Path, pooling: str, *further: str) -> None:
    """The files that sentence-transformers puts beside an encoder; `further` are the modules after the pooling."""
    kinds = ["Transformer", "Pooling", *further]
    paths = ["", *(f"{index}_{kind}" for index, kind in enumerate(kinds[1:], start=1))]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(zip(paths, kinds, strict=True))
    ]
    write_json(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{mode}": mode.startswith(pooling) for mode in ("cls_token", "mean_tokens", "max_tokens")}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, **modes})


def _write(folder: Path, kind: Any, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> None:
    torch.manual_seed(11)
    model = kind.from_config(config)
    for parameter in model.parameters():  # fresh norms and biases are ones and zeros, which would hide mistakes
        parameter.data = torch.randn_like(parameter) * 0.3
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
