"""Networks and preprocessing of timm, built strictly from a checkpoint: timm gives definitions, never weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from trireme_export.errors import CheckpointRefused
from trireme_export.image_original import Floats, Pixels
from trireme_export.image_preprocessing import Interpolation, Preprocessing, channels, normalization
from trireme_export.intake import load_strictly
from trireme_export.library_config import library_refusals
from trireme_export.sizes import check_sizes
from trireme_export.timm_config import TimmConfig

# The library computes these from the sizes; older versions saved them.
_IGNORABLE = ("*.relative_position_index", "*.relative_coords_table", "*.attn_mask")
_INTERPOLATIONS: Mapping[str, Interpolation] = {name: name for name in ("nearest", "bilinear", "bicubic", "lanczos")}
_FITS: Mapping[str, Any] = {"center": "shorter_side", "squash": "stretch"}


class TimmVector(nn.Module):
    """Normalised images (batch, 3, height, width) to pooled features (batch, D), as of a model without classes."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        vector: Tensor = self.model.forward_head(self.model.forward_features(images), pre_logits=True)
        return vector


class TimmProcessor:
    """timm's own transforms for evaluation: Pillow images up to the last two, which make normalised numbers."""

    def __init__(self, data_config: Mapping[str, Any]) -> None:
        transforms = _timm().data.create_transform(**data_config, is_training=False).transforms
        self._resize, self._normalize = transforms[:-2], transforms[-2:]

    def pixels(self, image: Image.Image) -> Pixels:
        """(size, size, 3): resized and cropped."""
        return np.asarray(_applied(self._resize, image))

    def planes(self, pixels: Pixels) -> Floats:
        """(3, size, size): normalised."""
        planes: Floats = _applied(self._normalize, Image.fromarray(pixels)).numpy()
        return planes


def build_timm(config: TimmConfig, weights: Mapping[str, Tensor]) -> nn.Module:
    """The network in fp32, ready for inference; with classes it gives logits.

    Raises:
        CheckpointRefused: timm is not there or does not know it, or a tensor is not accounted for.
    """
    timm = _timm()
    asked = {**config.model_args, "num_classes": config.num_classes}
    check_sizes(asked, [tensor.shape for tensor in weights.values()])
    if not timm.is_model(config.architecture):
        raise CheckpointRefused(f"config.json: timm {timm.__version__} has no architecture {config.architecture}")
    head = weights.get(f"{config.pretrained_cfg.get('classifier')}.weight")
    if head is not None and head.shape[:1] != (config.num_classes,):
        raise CheckpointRefused(
            f"config.json: num_classes is {config.num_classes}, and the head has {sum(head.shape[:1])} rows"
        )
    with library_refusals("config.json", "timm"):
        model: nn.Module = timm.create_model(
            config.architecture,
            pretrained=False,
            pretrained_cfg=dict(config.pretrained_cfg),
            num_classes=config.num_classes,
            **config.model_args,
        )
    _check_facts(config, model)
    load_strictly(model.float(), weights, lambda name: name, _IGNORABLE)
    return model.eval()


def without_classes(model: Any) -> nn.Module:
    """A copy that gives pooled features, by timm's own way of dropping a head."""
    encoder: Any = copy.deepcopy(model)
    encoder.reset_classifier(0)
    return encoder.eval()  # type: ignore[no-any-return]


def _check_facts(config: TimmConfig, model: Any) -> None:
    """What `config.json` says besides, and timm's loader does not read, is true of the network that it builds."""
    pooling = _pooling(model)
    if config.global_pool not in (None, pooling):
        raise CheckpointRefused(
            f"config.json: global_pool is {config.global_pool!r}, and timm builds {config.architecture} with "
            f"{pooling!r}: if it was trained with {config.global_pool!r}, say so in model_args, else correct it"
        )
    widths = {model.num_features, getattr(model, "head_hidden_size", None)}  # before timm 1.0 it was the latter
    if config.num_features is not None and config.num_features not in widths:
        raise CheckpointRefused(
            f"config.json: num_features is {config.num_features!r}, and {config.architecture} has "
            f"{model.num_features}: architecture or model_args are those of another network"
        )


def _pooling(model: Any) -> str | None:
    """By its name in timm: of the network itself, or of its head."""
    for place in (model, getattr(model, "head", None)):
        own = getattr(place, "global_pool", None)
        name = getattr(own, "pool_type", own)
        if isinstance(name, str):
            return name
    return None


def read_timm_processor(config: TimmConfig) -> tuple[TimmProcessor, Preprocessing]:
    """What `pretrained_cfg` asks for, or timm takes for granted.

    Raises:
        CheckpointRefused: it asks for what cannot be followed.
    """
    with library_refusals("config.json: pretrained_cfg", "timm"):
        data: dict[str, Any] = _timm().data.resolve_data_config(pretrained_cfg=dict(config.pretrained_cfg))
        preprocessing = _preprocessing(data)
        return TimmProcessor(data), preprocessing


def _preprocessing(data: Mapping[str, Any]) -> Preprocessing:
    planes, height, width = data["input_size"]
    if planes != 3 or height != width:
        raise _refused(f"input_size is {list(data['input_size'])}; 3 channels and equal sides can be exported")
    for key, allowed in (("interpolation", _INTERPOLATIONS), ("crop_mode", _FITS)):
        if data[key] not in allowed:
            raise _refused(f"{key} is {data[key]!r}; {', '.join(allowed)} can be exported")
    if not 0 < data["crop_pct"] <= 1:
        raise _refused(f"crop_pct is {data['crop_pct']}; a number up to 1 can be exported")
    return Preprocessing(
        size=int(height),
        resize=math.floor(height / data["crop_pct"]),
        fit=_FITS[data["crop_mode"]],
        crop_offset="round",
        interpolation=_INTERPOLATIONS[data["interpolation"]],
        normalization=normalization(channels(data["mean"]), channels(data["std"])),
    )


def _applied(transforms: Any, image: Any) -> Any:
    for transform in transforms:
        image = transform(image)
    return image


def _timm() -> Any:
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # torchvision of another build than torch raises RuntimeError
        raise CheckpointRefused(
            f"this is a checkpoint of timm, which cannot be imported here ({error}): pip install timm, with the "
            f"torchvision that belongs to torch {torch.__version__}"
        ) from error
    return timm


def _refused(why: str) -> CheckpointRefused:
    return CheckpointRefused(f"config.json: pretrained_cfg: {why}")
