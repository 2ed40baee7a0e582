"""A text encoder of Transformers, built strictly from a checkpoint. The one module that touches that library."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from tokenizers import Tokenizer
from torch import Tensor, nn

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.intake import encoder_name, family_of, load_strictly

# `eager` is written out as matrix products, which exports to the smaller graph; `sdpa` is PyTorch's own attention.
Attention = Literal["eager", "sdpa"]


def build_encoder(config: Mapping[str, Any], weights: Mapping[str, Tensor], attention: Attention) -> nn.Module:
    """The encoder in fp32, ready for inference; it gives `last_hidden_state`.

    Raises:
        CheckpointRefused: a config key or a tensor is not accounted for.
    """
    from transformers import AutoConfig, AutoModel

    family = family_of(config)
    settings = {key: value for key, value in config.items() if key in family.understood - {"model_type"}}
    transformers_config = AutoConfig.for_model(family.model_type, **settings)
    encoder: nn.Module = AutoModel.from_config(  # type: ignore[no-untyped-call]
        transformers_config, attn_implementation=attention, add_pooling_layer=False
    ).float()
    load_strictly(encoder, weights, partial(encoder_name, family=family), family.ignorable)
    return encoder.eval()


def read_tokenizer(checkpoint: Checkpoint, config: Mapping[str, Any]) -> Tokenizer:
    """The checkpoint's own tokenizer, without the truncation and padding that it may carry.

    Raises:
        CheckpointRefused: it is damaged, or gives ids that the encoder does not have.
    """
    path = checkpoint.path("tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise CheckpointRefused(f"{checkpoint.uri}: tokenizer.json is damaged: {error}") from error
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values())
    if largest >= config["vocab_size"]:
        raise CheckpointRefused(
            f"{checkpoint.uri}: tokenizer.json has the id {largest}; "
            f"the encoder's vocabulary has {config['vocab_size']}"
        )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
