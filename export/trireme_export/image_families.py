"""What each image architecture of Transformers needs to be known of its config keys and tensors. Data only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from trireme_export.families import BOOKKEEPING, keys

# Which stages a backbone would show to a detector; and sizes that the library computes from others.
_DERIVED = keys("out_features out_indices stage_names hidden_size num_layers num_hidden_layers")


@dataclass(frozen=True, kw_only=True)
class ImageFamily:
    """One `model_type` of Transformers."""

    model_type: str
    required: frozenset[str]  # keys without which the library would take an architecture of its own
    has_tokens: bool = False  # the first token stands for the image, where no pooler was trained
    irrelevant: frozenset[str] = frozenset()
    only_values: Mapping[str, object] = field(default_factory=lambda: {"num_channels": 3})
    ignorable: tuple[str, ...] = ()  # patterns of tensors that the library computes from the config

    @property
    def undeclared(self) -> frozenset[str]:
        """Keys that may be there though the config class does not declare them."""
        return self.irrelevant | _DERIVED | BOOKKEEPING


_TRANSFORMER = keys("hidden_size num_hidden_layers num_attention_heads intermediate_size image_size patch_size")
_VIT = ImageFamily(model_type="vit", required=_TRANSFORMER, has_tokens=True)
_CONVNEXT = ImageFamily(model_type="convnext", required=keys("hidden_sizes depths patch_size"))
_MOBILENET = ImageFamily(model_type="mobilenet_v1", required=keys("depth_multiplier tf_padding"))
_SWIN = ImageFamily(
    model_type="swin",
    required=keys("embed_dim depths num_heads window_size image_size patch_size"),
    irrelevant=keys("path_norm"),  # in the configs that Microsoft published; no version of the library reads it
    ignorable=("*.relative_position_index", "*.relative_coords_table"),
)

IMAGE_FAMILIES = {
    family.model_type: family
    for family in (
        ImageFamily(model_type="resnet", required=keys("embedding_size hidden_sizes depths layer_type")),
        ImageFamily(model_type="efficientnet", required=keys("width_coefficient depth_coefficient hidden_dim")),
        _MOBILENET,
        dataclasses.replace(_MOBILENET, model_type="mobilenet_v2"),
        _CONVNEXT,
        dataclasses.replace(_CONVNEXT, model_type="convnextv2"),
        _VIT,
        dataclasses.replace(_VIT, model_type="deit"),
        _SWIN,
        dataclasses.replace(_SWIN, model_type="swinv2"),
    )
}
