"""Tiny random checkpoints of every family, written by the library itself: weights, config and tokenizer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    BertTokenizer,
    DebertaV2Config,
    DebertaV2Tokenizer,
    DistilBertConfig,
    ElectraConfig,
    ModernBertConfig,
    MPNetConfig,
    MPNetTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaTokenizer,
    XLMRobertaConfig,
    XLMRobertaTokenizer,
)

from .conftest import write_json

WORDS = ["a", "the", "three", "banks", "of", "oars", "row", "##s", "##ed", "moved", "as", "one", "dawn", "trireme"]
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
LABELS = ("calm", "storm", "fog")
TAGS = ("O", "B-SHIP", "I-SHIP", "B-SEA", "I-SEA")


def word_pieces(*special: str) -> dict[str, int]:
    """A vocabulary of WordPiece that can spell any word of Latin letters."""
    pieces = [*special, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    return {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}


@dataclass(frozen=True, kw_only=True)
class TinyFamily:
    config: type[PreTrainedConfig]
    tokenizer: Callable[[], PreTrainedTokenizerBase]
    options: dict[str, Any] = field(default_factory=dict)  # besides SIZES; None takes a size away


def bert_tokenizer() -> PreTrainedTokenizerBase:
    return BertTokenizer(vocab=word_pieces("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))


def mpnet_tokenizer() -> PreTrainedTokenizerBase:
    return MPNetTokenizer(vocab=word_pieces("<s>", "<pad>", "</s>", "[UNK]", "<mask>"))


def byte_pairs(*special: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A vocabulary of all bytes, and some merges."""
    merges = [("o", "a"), ("oa", "r"), ("oar", "s"), ("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("Ġ", "a")]
    pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in merges)]
    return {piece: index for index, piece in enumerate(pieces)}, merges


def roberta_tokenizer() -> PreTrainedTokenizerBase:
    vocab, merges = byte_pairs("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    return RobertaTokenizer(vocab=vocab, merges=merges)


def modernbert_tokenizer() -> PreTrainedTokenizerBase:
    vocab, merges = byte_pairs("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    names = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": token for name, token in names.items()}
    )


def unigrams(*special: str) -> list[tuple[str, float]]:
    """Pieces with scores, as sentencepiece makes them: `▁` begins a word."""
    pieces = [*(f"▁{word}" for word in WORDS if not word.startswith("#")), "▁", "s", "ed", *LETTERS]
    return [(piece, 0.0) for piece in special] + [
        (piece, -1.0 - index / 10) for index, piece in enumerate(dict.fromkeys(pieces))
    ]


def xlm_roberta_tokenizer() -> PreTrainedTokenizerBase:
    return XLMRobertaTokenizer(vocab=[*unigrams("<s>", "<pad>", "</s>", "<unk>"), ("<mask>", 0.0)])


def deberta_tokenizer() -> PreTrainedTokenizerBase:
    return DebertaV2Tokenizer(vocab=unigrams("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"), unk_id=3)


SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 66,
}

MODERNBERT: dict[str, Any] = {
    "local_attention": 8,
    "global_attn_every_n_layers": 2,
    "pad_token_id": 3,
    **dict.fromkeys(("bos_token_id", "cls_token_id"), 1),
    **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
}

TINY_FAMILIES = {
    "bert": TinyFamily(config=BertConfig, tokenizer=bert_tokenizer),
    "roberta": TinyFamily(config=RobertaConfig, tokenizer=roberta_tokenizer),
    "xlm-roberta": TinyFamily(config=XLMRobertaConfig, tokenizer=xlm_roberta_tokenizer),
    "electra": TinyFamily(config=ElectraConfig, tokenizer=bert_tokenizer, options={"embedding_size": 16}),
    "distilbert": TinyFamily(
        config=DistilBertConfig, tokenizer=bert_tokenizer, options={"hidden_dim": 64, "intermediate_size": None}
    ),
    "mpnet": TinyFamily(config=MPNetConfig, tokenizer=mpnet_tokenizer),
    "deberta-v3": TinyFamily(
        config=DebertaV2Config,
        tokenizer=deberta_tokenizer,
        options={
            "relative_attention": True,
            "position_biased_input": False,
            "pos_att_type": "p2c|c2p",
            "position_buckets": 8,
            "max_relative_positions": -1,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
        },
    ),
    "deberta-v2": TinyFamily(
        config=DebertaV2Config,
        tokenizer=deberta_tokenizer,
        options={"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 2},
    ),
    "modernbert": TinyFamily(config=ModernBertConfig, tokenizer=modernbert_tokenizer, options=MODERNBERT),
    "modernbert-mean": TinyFamily(
        config=ModernBertConfig,
        tokenizer=modernbert_tokenizer,
        options={**MODERNBERT, "classifier_pooling": "mean"},
    ),
}


def tiny_config(name: str, tokenizer: PreTrainedTokenizerBase, **options: Any) -> PreTrainedConfig:
    family = TINY_FAMILIES[name]
    chosen = {key: value for key, value in (SIZES | family.options | options).items() if value is not None}
    return family.config(vocab_size=len(tokenizer), **chosen)


def write_tiny_classifier(folder: Path, name: str, labels: tuple[str, ...] = LABELS, **options: Any) -> None:
    tokenizer = TINY_FAMILIES[name].tokenizer()
    config = tiny_config(name, tokenizer, **_named(labels), **options)
    _write(folder, AutoModelForSequenceClassification, tokenizer, config)


def write_tiny_token_classifier(folder: Path, name: str, labels: tuple[str, ...] = TAGS, **options: Any) -> None:
    tokenizer = TINY_FAMILIES[name].tokenizer()
    config = tiny_config(name, tokenizer, **_named(labels), **options)
    _write(folder, AutoModelForTokenClassification, tokenizer, config, _spread)


def _spread(model: Any) -> None:
    """Random weights give every token nearly the same logits; now each label is the best of some."""
    ids = torch.arange(len(model.get_input_embeddings().weight)).unfold(0, 24, 8)
    with torch.inference_mode():
        logits = model.eval()(ids).logits.flatten(0, 1)  # (tokens, labels)
        scale = 2 / logits.std(dim=0)
        model.classifier.bias.data = (model.classifier.bias - logits.mean(dim=0)) * scale
        model.classifier.weight.data *= scale[:, None]


def _named(labels: tuple[str, ...]) -> dict[str, Any]:
    names = dict(enumerate(labels))
    return {"id2label": names, "label2id": {label: index for index, label in names.items()}}


def write_tiny_encoder(folder: Path, name: str) -> None:
    tokenizer = TINY_FAMILIES[name].tokenizer()
    _write(folder, AutoModel, tokenizer, tiny_config(name, tokenizer))


def write_sentence_layout(folder: Path, pooling: str, *further: str) -> None:
    """The files that sentence-transformers 6.2 puts beside an encoder; `further` are the modules after the pooling."""
    kinds = {"Transformer": "base", "Pooling": "sentence_transformer", "Dense": "base", "Normalize": "base"}
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": f"{index}_{kind}" if index else "",
            "type": f"sentence_transformers.{kinds[kind]}.modules.{kind.lower()}.{kind}",
        }
        for index, kind in enumerate(("Transformer", "Pooling", *further))
    ]
    write_json(folder / "modules.json", modules)
    for index, kind in enumerate(("Pooling", *further), start=1):
        (folder / f"{index}_{kind}").mkdir()
    pooled = {"embedding_dimension": 32, "pooling_mode": pooling, "include_prompt": True}
    write_json(folder / "1_Pooling" / "config.json", pooled)
    text = {"method": "forward", "method_output_name": "last_hidden_state"}
    transformer = {"transformer_task": "feature-extraction", "modality_config": {"text": text}}
    write_json(folder / "sentence_bert_config.json", {**transformer, "module_output_name": "token_embeddings"})
    prompts = {"default_prompt_name": None, "prompts": {"query": "", "document": ""}, "similarity_fn_name": "cosine"}
    write_json(folder / "config_sentence_transformers.json", prompts)


def write_dense(folder: Path) -> nn.Linear:
    """The files of a module Dense with tanh, from 32 numbers to 5; its linear layer."""
    linear = nn.Linear(32, 5)
    save_file({f"linear.{name}": tensor for name, tensor in linear.state_dict().items()}, folder / "model.safetensors")
    activation = "torch.nn.modules.activation.Tanh"
    config = {"in_features": 32, "out_features": 5, "bias": True, "activation_function": activation}
    names = dict.fromkeys(("module_input_name", "module_output_name"), "sentence_embedding")
    write_json(folder / "config.json", config | names)
    return linear


def _write(
    folder: Path,
    kind: Any,
    tokenizer: PreTrainedTokenizerBase,
    config: PreTrainedConfig,
    finish: Callable[[Any], None] = lambda model: None,
) -> None:
    torch.manual_seed(11)
    model = kind.from_config(config)
    for parameter in model.parameters():  # fresh norms and biases are ones and zeros, which would hide mistakes
        parameter.data = torch.randn_like(parameter) * 0.3
    finish(model)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
