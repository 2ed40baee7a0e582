"""Text models of Transformers, built strictly from a checkpoint. Knows no tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from trireme_export.errors import CheckpointRefused
from trireme_export.intake import classifier_name, encoder_name, family_of, load_strictly
from trireme_export.library_config import library_refusals, read_config

# `eager` is written out as matrix products, which exports to the smaller graph; None is what the library chooses.
Attention = Literal["eager"] | None


def build_encoder(config: Mapping[str, Any], weights: Mapping[str, Tensor], attention: Attention) -> nn.Module:
    """The encoder in fp32, ready for inference; it gives `last_hidden_state`.

    Raises:
        CheckpointRefused: a config key or a tensor is not accounted for.
    """
    from transformers import AutoModel

    family = family_of(config)
    options = {"add_pooling_layer": False} if family.pooler else {}
    encoder = _built(AutoModel, config, attention, **options)
    load_strictly(encoder, weights, partial(encoder_name, family=family), family.ignorable)
    return encoder.eval()


def build_classifier(config: Mapping[str, Any], weights: Mapping[str, Tensor], attention: Attention) -> nn.Module:
    """The library's `*ForSequenceClassification` in fp32, ready for inference; it gives `logits`.

    Raises:
        CheckpointRefused: a config key or a tensor is not accounted for, or the head has not one row for each label.
    """
    from transformers import AutoModelForSequenceClassification

    family = family_of(config)
    classifier = _built(AutoModelForSequenceClassification, config, attention)
    labels = classifier.get_parameter(f"{family.logits}.weight").shape[0]
    head = weights.get(f"{family.logits}.weight")
    if head is not None and len(head) != labels:
        raise CheckpointRefused(
            f"config.json names {labels} labels, but {family.logits}.weight has rows for {len(head)}: "
            "give id2label one name for each row, in their order"
        )
    ignorable = [*family.ignorable, *(f"{family.encoder}.{pattern}" for pattern in family.ignorable)]
    load_strictly(classifier, weights, partial(classifier_name, family=family), ignorable)
    return classifier.eval()


def classifier_architecture(config: Mapping[str, Any]) -> str:
    """The name of the library's sequence classifier for this `model_type`."""
    from transformers import AutoModelForSequenceClassification

    classifier: Any = AutoModelForSequenceClassification._model_mapping[type(library_config(config))]
    return str(classifier.__name__)


def library_config(config: Mapping[str, Any]) -> Any:
    """The library's own reading of the whole `config.json`.

    Raises:
        CheckpointRefused: a key that the library would ignore, or a value that it refuses.
    """
    return read_config(config, family_of(config))


def _built(model: Any, config: Mapping[str, Any], attention: Attention, **options: Any) -> nn.Module:
    with library_refusals("config.json"):
        built: nn.Module = model.from_config(
            library_config(config), attn_implementation=attention, dtype=torch.float32, **options
        )
    return built
