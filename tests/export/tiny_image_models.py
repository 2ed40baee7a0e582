"""Tiny random image checkpoints of every family, written by the library itself: weights, config and processor."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModel,
    AutoModelForImageClassification,
    ConvNextConfig,
    ConvNextV2Config,
    DeiTConfig,
    EfficientNetConfig,
    MobileNetV1Config,
    MobileNetV2Config,
    PreTrainedConfig,
    ResNetConfig,
    SwinConfig,
    Swinv2Config,
    ViTConfig,
)
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.efficientnet.image_processing_pil_efficientnet import EfficientNetImageProcessorPil
from transformers.models.mobilenet_v1.image_processing_pil_mobilenet_v1 import MobileNetV1ImageProcessorPil
from transformers.models.mobilenet_v2.image_processing_pil_mobilenet_v2 import MobileNetV2ImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

LABELS = ("cat", "dog", "oar", "trireme", "sail", "crane", "crane")  # two classes of ImageNet share that name
SIZE = 48
_TRANSFORMER = {
    "image_size": SIZE,
    "patch_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
_CONVOLUTIONS = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
_SWIN = {"image_size": SIZE, "patch_size": 4, "embed_dim": 8, "depths": [1, 2], "num_heads": [1, 2], "window_size": 3}
_SQUARE = {"height": SIZE, "width": SIZE}
_STATISTICS = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


@dataclass(frozen=True, kw_only=True)
class TinyImageFamily:
    config: type[PreTrainedConfig]
    options: dict[str, Any]
    processor: type[Any]
    settings: dict[str, Any] = field(default_factory=dict)  # of the processor


TINY_IMAGE_FAMILIES = {
    "resnet": TinyImageFamily(
        config=ResNetConfig,
        options={"embedding_size": 8, "layer_type": "bottleneck", **_CONVOLUTIONS},
        processor=ConvNextImageProcessorPil,
        settings={"size": {"shortest_edge": SIZE}, "crop_pct": 0.875, **_STATISTICS},
    ),
    "efficientnet": TinyImageFamily(
        config=EfficientNetConfig,
        options={"image_size": SIZE, "width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320},
        processor=EfficientNetImageProcessorPil,
        settings={
            "size": _SQUARE,
            "resample": 0,
            "rescale_factor": 1 / 127.5,
            "rescale_offset": True,
            "image_std": [0.4785, 0.4733, 0.4743],  # by which this family divides twice
        },
    ),
    "mobilenet_v1": TinyImageFamily(
        config=MobileNetV1Config,
        options={"image_size": SIZE, "depth_multiplier": 0.25},
        processor=MobileNetV1ImageProcessorPil,
        settings={"size": {"shortest_edge": 57}, "crop_size": _SQUARE},
    ),
    "mobilenet_v2": TinyImageFamily(
        config=MobileNetV2Config,
        options={"image_size": SIZE, "depth_multiplier": 0.25},
        processor=MobileNetV2ImageProcessorPil,
        settings={"size": {"shortest_edge": 56}, "crop_size": _SQUARE},
    ),
    "convnext": TinyImageFamily(
        config=ConvNextConfig,
        options={"image_size": SIZE, **_CONVOLUTIONS},
        processor=ConvNextImageProcessorPil,
        settings={"size": {"shortest_edge": SIZE}, "crop_pct": 0.9},
    ),
    "convnextv2": TinyImageFamily(
        config=ConvNextV2Config,
        options={"image_size": SIZE, **_CONVOLUTIONS},
        processor=ConvNextImageProcessorPil,
        settings={"size": {"shortest_edge": SIZE}, "resample": 1},
    ),
    "vit": TinyImageFamily(
        config=ViTConfig, options=_TRANSFORMER, processor=ViTImageProcessorPil, settings={"size": _SQUARE}
    ),
    "deit": TinyImageFamily(
        config=DeiTConfig,
        options=_TRANSFORMER,
        processor=DeiTImageProcessorPil,
        settings={"size": {"height": 55, "width": 55}, "crop_size": _SQUARE, **_STATISTICS},
    ),
    "deit-with-teacher": TinyImageFamily(
        config=DeiTConfig,
        options={**_TRANSFORMER, "architectures": ["DeiTForImageClassificationWithTeacher"]},
        processor=DeiTImageProcessorPil,
        settings={"size": {"shortest_edge": 55}, "crop_size": _SQUARE},
    ),
    "swin": TinyImageFamily(
        config=SwinConfig, options=_SWIN, processor=ViTImageProcessorPil, settings={"size": _SQUARE, "resample": 3}
    ),
    "swinv2": TinyImageFamily(
        config=Swinv2Config, options=_SWIN, processor=ViTImageProcessorPil, settings={"size": _SQUARE}
    ),
}


def write_tiny_image_classifier(folder: Path, name: str, labels: tuple[str, ...] = LABELS, **options: Any) -> None:
    names = dict(enumerate(labels))
    options = {"id2label": names, "label2id": {label: index for index, label in names.items()}, **options}
    _write(folder, name, AutoModelForImageClassification, options)


def write_tiny_image_encoder(folder: Path, name: str, **options: Any) -> None:
    _write(folder, name, AutoModel, options)


def _write(folder: Path, name: str, kind: Any, options: dict[str, Any]) -> None:
    family = TINY_IMAGE_FAMILIES[name]
    given = {"architectures": [], **family.options, **options}
    if name == "deit" and not given["architectures"]:
        given["architectures"] = ["DeiTForImageClassification"]
    torch.manual_seed(5)
    model = kind.from_config(family.config(**given)).eval()
    stir(model)
    model.save_pretrained(folder)
    family.processor(**family.settings).save_pretrained(folder)


def stir(model: torch.nn.Module) -> None:
    """Fresh norms and biases are ones and zeros, and layer scales nearly zero, which would hide mistakes.

    The statistics of the batch norms are those of noise: others let the images' differences die out.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 1.5 / max(1, parameter[0].numel()) ** 0.5 if parameter.dim() > 1 else 0.3
            centre = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
            parameter.copy_(centre + torch.randn_like(parameter) * spread)
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.momentum = None  # the mean of everything seen
        model.train()(torch.randn(16, 3, SIZE, SIZE) * 3)
        model.eval()
