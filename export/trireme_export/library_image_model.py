"""Image models of Transformers, built strictly from a checkpoint. Knows no image processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from trireme_export.errors import CheckpointRefused
from trireme_export.image_families import IMAGE_FAMILIES
from trireme_export.intake import fitting, load_strictly
from trireme_export.library_config import library_refusals, read_config
from trireme_export.sizes import built_to_fit, check_sizes
from trireme_export.task_detection import architectures_of


class LibraryLogits(nn.Module):
    """Normalised images (batch, 3, height, width) to logits (batch, labels)."""

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(pixel_values=images).logits
        return logits


class LibraryVector(nn.Module):
    """Normalised images (batch, 3, height, width) to vectors (batch, D): the pooler's output, or the first token."""

    def __init__(self, encoder: nn.Module, *, first_token: bool) -> None:
        super().__init__()
        self.encoder, self.first_token = encoder, first_token

    def forward(self, images: Tensor) -> Tensor:
        output = self.encoder(pixel_values=images)
        vector: Tensor = output.last_hidden_state[:, 0] if self.first_token else output.pooler_output.flatten(1)
        return vector


def build_logits(config: Mapping[str, Any], weights: Mapping[str, Tensor], *, traced: bool = False) -> LibraryLogits:
    """The library's `*ForImageClassification` in fp32, ready for inference, or `traced`: see `_built`.

    Raises:
        CheckpointRefused: a config key or a tensor is not accounted for, or the head has not one row for each label.
    """
    return LibraryLogits(_classifier(config, weights, traced=traced)).eval()


def build_vector(config: Mapping[str, Any], weights: Mapping[str, Tensor], *, traced: bool = False) -> LibraryVector:
    """The library's encoder, ready for inference: a bare one, or that of a classifier, whose head is read too.

    Raises:
        CheckpointRefused: a config key or a tensor is not accounted for.
    """
    family = IMAGE_FAMILIES[config["model_type"]]
    if is_classifier(config):
        encoder = _classifier(config, weights, traced=traced).base_model
        return LibraryVector(encoder, first_token=family.has_tokens).eval()  # type: ignore[arg-type]
    first_token = family.has_tokens and not any("pooler." in name for name in weights)
    encoder = _encoder(config, weights, {"add_pooling_layer": False} if first_token else {}, traced=traced)
    return LibraryVector(encoder, first_token=first_token).eval()


def is_classifier(config: Mapping[str, Any]) -> bool:
    """Whether `config.json` names a classifier of its family."""
    return bool({*architectures_of(config)} & {*classifier_architectures(config)})


def classifier_architectures(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the library's image classifiers for this `model_type`."""
    from transformers import AutoModelForImageClassification

    known: Any = AutoModelForImageClassification._model_mapping[type(image_config(config))]
    return tuple(each.__name__ for each in (known if isinstance(known, tuple) else (known,)))


def image_config(config: Mapping[str, Any]) -> Any:
    """The library's own reading of the whole `config.json`.

    Raises:
        CheckpointRefused: a key that the library would ignore, or a value that it refuses.
    """
    return read_config(config, IMAGE_FAMILIES[config["model_type"]])


def _classifier(config: Mapping[str, Any], weights: Mapping[str, Tensor], *, traced: bool = False) -> nn.Module:
    from transformers import AutoModelForImageClassification

    family = IMAGE_FAMILIES[config["model_type"]]
    check_sizes(config, [tensor.shape for tensor in weights.values()])

    def check(empty: nn.Module) -> None:
        _check_head(empty, weights)
        fitting(empty, weights, _library_names(empty), family.ignorable)

    classifier = built_to_fit(lambda: _built(AutoModelForImageClassification, config, {}, traced=traced), check)
    load_strictly(classifier, weights, _library_names(classifier), family.ignorable)
    return classifier


def _encoder(
    config: Mapping[str, Any], weights: Mapping[str, Tensor], options: Mapping[str, bool], *, traced: bool
) -> nn.Module:
    from transformers import AutoModel

    family = IMAGE_FAMILIES[config["model_type"]]
    check_sizes(config, [tensor.shape for tensor in weights.values()])

    def name_in(encoder: Any) -> Callable[[str], str]:
        library_name, prefix = _library_names(encoder), f"{encoder.base_model_prefix}."
        return lambda name: library_name(name.removeprefix(prefix))

    encoder = built_to_fit(
        lambda: _built(AutoModel, config, options, traced=traced),
        lambda empty: fitting(empty, weights, name_in(empty), family.ignorable),
    )
    load_strictly(encoder, weights, name_in(encoder), family.ignorable)
    return encoder


def _built(model: Any, config: Mapping[str, Any], options: Mapping[str, bool], *, traced: bool) -> nn.Module:
    """In fp32. What is traced has attention written out as matrix products, and poolers that every runtime knows."""
    attention = "eager" if traced else None  # None: what the library chooses
    with library_refusals("config.json"):
        built: nn.Module = model.from_config(
            image_config(config), attn_implementation=attention, dtype=torch.float32, **options
        )
    if traced:
        _pool_everything(built.base_model)
    return built.eval()


def _pool_everything(encoder: Any) -> None:
    """EfficientNet's pooler has windows of `hidden_dim` pixels, more than there are, which OpenVINO refuses."""
    match getattr(encoder, "pooler", None):
        case nn.AvgPool2d():
            encoder.pooler = nn.AdaptiveAvgPool2d(1)
        case nn.MaxPool2d():
            encoder.pooler = nn.AdaptiveMaxPool2d(1)


def _check_head(classifier: Any, weights: Mapping[str, Tensor]) -> None:
    """Every layer that makes logits has one row for each label."""
    for name, parameter in classifier.named_parameters():
        is_head = not name.startswith(f"{classifier.base_model_prefix}.") and name.endswith(".weight")
        if is_head and name in weights and weights[name].shape[:1] != parameter.shape[:1]:
            raise CheckpointRefused(
                f"config.json names {len(parameter)} labels, but {name} has rows for {sum(weights[name].shape[:1])}: "
                "give id2label one name for each row, in their order"
            )


def _library_names(model: Any) -> Callable[[str], str]:
    """A tensor's name in checkpoints of any age, as this version of the library calls it: by the library's own list."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, apply_renamings

    renamings = [each for each in get_model_conversion_mapping(model) if isinstance(each, WeightRenaming)]
    return lambda name: apply_renamings(name, renamings)
