"""Text models of Transformers, built strictly from a checkpoint. Knows no tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from trireme_export.errors import CheckpointRefused
from trireme_export.families import Family
from trireme_export.intake import classifier_name, encoder_name, family_of, fitting, load_strictly
from trireme_export.library_config import library_refusals, read_config
from trireme_export.sizes import built_to_fit, check_sizes

# `eager` is written out as matrix products, which exports to the smaller graph; None is what the library chooses.
Attention = Literal["eager"] | None


class Classifier(Enum):
    """What the library's classifiers label, by how the names of their classes end."""

    SEQUENCES = "ForSequenceClassification"
    TOKENS = "ForTokenClassification"

    @property
    def library_class(self) -> Any:
        """The library's class for every family."""
        import transformers

        return getattr(transformers, f"AutoModel{self.value}")

    def logits(self, family: Family) -> str:
        """The layer whose outputs are the logits, one for each label."""
        return family.logits if self is Classifier.SEQUENCES else family.token_head[-1]


def build_encoder(config: Mapping[str, Any], weights: Mapping[str, Tensor], attention: Attention) -> nn.Module:
    """The encoder in fp32, ready for inference; it gives `last_hidden_state`.

    Raises:
        CheckpointRefused: a config key or a tensor is not accounted for.
    """
    from transformers import AutoModel

    family = family_of(config)
    options = {"add_pooling_layer": False} if family.pooler else {}
    return _filled(
        lambda: _built(AutoModel, config, attention, **options),
        config,
        weights,
        partial(encoder_name, family=family),
        family.ignorable,
    )


CLASSIFIERS = {
    "text-classification": Classifier.SEQUENCES,
    "token-classification": Classifier.TOKENS,
    "reranking": Classifier.SEQUENCES,
}


def build_classifier(
    kind: Classifier, config: Mapping[str, Any], weights: Mapping[str, Tensor], attention: Attention
) -> nn.Module:
    """The library's classifier of this kind in fp32, ready for inference; it gives `logits`.

    Raises:
        CheckpointRefused: a config key or a tensor is not accounted for, or the head has not one row for each label.
    """
    family = family_of(config)
    logits = f"{kind.logits(family)}.weight"

    def build() -> nn.Module:
        classifier = _built(kind.library_class, config, attention)
        labels, head = classifier.get_parameter(logits).shape[0], weights.get(logits)
        if head is not None and head.shape[:1] != (labels,):
            raise CheckpointRefused(
                f"config.json names {labels} labels, but {logits} has rows for {_rows(head)}: "
                "give id2label one name for each row, in their order"
            )
        return classifier

    ignorable = [*family.ignorable, *(f"{family.encoder}.{pattern}" for pattern in family.ignorable)]
    return _filled(build, config, weights, partial(classifier_name, family=family), ignorable)


def _rows(head: Tensor) -> int:
    return head.shape[0] if head.shape else 0


def _filled(
    build: Callable[[], nn.Module],
    config: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    rename: Callable[[str], str],
    ignorable: Iterable[str],
) -> nn.Module:
    check_sizes(config, [tensor.shape for tensor in weights.values()])
    model = built_to_fit(build, lambda empty: fitting(empty, weights, rename, ignorable))
    load_strictly(model, weights, rename, ignorable)
    return model.eval()


def classifier_architecture(kind: Classifier, config: Mapping[str, Any]) -> str:
    """The name of the library's classifier of this kind for this `model_type`."""
    classifier: Any = kind.library_class._model_mapping[type(library_config(config))]
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
