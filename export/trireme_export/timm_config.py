"""`config.json` of a timm checkpoint, read once and accounted for to the last key. No torch, no timm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trireme_export.errors import CheckpointRefused
from trireme_export.families import keys
from trireme_export.labelling import Labelling

# Architectures to what their names look like: those that are compared with timm's own answers in tests, whatever their
# size. Others that are called alike (vitamin_*, resnet50_clip, vit_*_siglip_*, swinv2_cr_*) are built otherwise.
_SIZES = "(tiny|small|base|large|huge)"
_FAMILIES: Mapping[str, str] = {
    "resnet": r"resnet\d+[a-z]{0,2}",
    "efficientnet": r"efficientnet_(b\d|lite\d)",
    "tf_efficientnet": r"tf_efficientnet_(b\d|lite\d)",
    "mobilenetv2": r"mobilenetv2_\d{3}d?",
    "mobilenetv3": r"(tf_)?mobilenetv3_(small|large)_\d{3}",
    "convnext": rf"convnext_(atto|femto|pico|nano|{_SIZES}|xlarge)",
    "convnextv2": rf"convnextv2_(atto|femto|pico|nano|{_SIZES})",
    "vit": rf"vit_{_SIZES}_patch\d+_\d+",
    "deit": rf"deit_{_SIZES}(_distilled)?_patch\d+_\d+",
    "swin": rf"swin_{_SIZES}_patch\d+_window\d+_\d+",
    "swinv2": rf"swinv2_{_SIZES}_window\d+(to\d+)?_\d+(to\d+)?",
}
_KEYS = keys("""
    architecture num_classes num_features global_pool label_names label_descriptions model_args pretrained_cfg
""")
_READ = keys("input_size interpolation crop_pct crop_mode mean std num_classes label_names")
# Where the weights came from, which layers a fine-tuning would replace, and what else one could evaluate them with.
_IRRELEVANT = keys("""
    url file hf_hub_id hf_hub_filename source architecture tag license description origin_url paper_name paper_ids notes
    test_input_size test_crop_pct min_input_size fixed_input_size pool_size test_pool_size first_conv classifier
    label_descriptions
""")  # those descriptions are texts beside the names of labels
_ONLY: Mapping[str, tuple[object, ...]] = {
    "custom_load": (False, None),
    "label_offset": (0, None),
    "state_dict": (None,),
}
# Of timm's factory, not of a network: they load other weights, or build something else.
_NOT_OF_A_NETWORK = keys("""
    pretrained pretrained_cfg pretrained_cfg_overlay pretrained_strict pretrained_filter_fn checkpoint_path
    checkpoint_strict cache_dir scriptable exportable no_jit features_only out_indices feature_cfg feature_cls
    kwargs_filter model_name variant use_naflex
""")


@dataclass(frozen=True, kw_only=True)
class TimmConfig:
    """What timm's factory is told to build a network, and how its images are made."""

    architecture: str  # without tag
    num_classes: int  # 0: an encoder
    model_args: Mapping[str, Any]
    pretrained_cfg: Mapping[str, Any]
    global_pool: str | None  # None: it is not stated; timm's loader asks the architecture alone
    num_features: int | None  # None: as global_pool
    labels: tuple[str, ...] | None  # None: the checkpoint names none

    @property
    def labelling(self) -> Labelling:
        """`LABEL_i`, as Transformers says, for a class without a name."""
        labels = self.labels or tuple(f"LABEL_{index}" for index in range(self.num_classes))
        return Labelling(labels=labels, function="softmax")


def is_timm(config: Mapping[str, Any]) -> bool:
    """Whether it is timm that wrote this `config.json`."""
    return "architecture" in config and "model_type" not in config


def read_timm_config(config: Mapping[str, Any]) -> TimmConfig:
    """The whole `config.json`.

    Raises:
        CheckpointRefused: a key is not known, the architecture is of no known family, or the file contradicts itself.
    """
    _check_known("", config, _KEYS)
    cfg, args = config.get("pretrained_cfg"), config.get("model_args", {})
    if not isinstance(cfg, Mapping) or not isinstance(args, Mapping):
        raise CheckpointRefused(
            "config.json: pretrained_cfg, and model_args if there are any, must be objects, as timm writes them"
        )
    _check_known("pretrained_cfg: ", cfg, _READ | _IRRELEVANT | _ONLY.keys())
    for key in _ONLY.keys() & cfg.keys():
        if cfg[key] not in _ONLY[key]:
            raise CheckpointRefused(
                f"config.json: pretrained_cfg: {key} is {cfg[key]!r}; only {_ONLY[key][0]!r} can be exported"
            )
    classes = _num_classes(config)
    return TimmConfig(
        architecture=_architecture(config),
        num_classes=classes,
        model_args=_model_args(config, args),
        pretrained_cfg=dict(cfg),
        global_pool=config.get("global_pool"),
        num_features=config.get("num_features"),
        labels=_labels(config, cfg, classes),
    )


def _check_known(place: str, content: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(content.keys() - known):
        raise CheckpointRefused(
            f"config.json: {place}{', '.join(unknown)}: not known for timm, so not safe to ignore. "
            "Remove what is certain not to change the model's answers"
        )


def _architecture(config: Mapping[str, Any]) -> str:
    name, _, _ = str(config["architecture"]).partition(".")
    if not any(re.fullmatch(pattern, name) for pattern in _FAMILIES.values()):
        known = ", ".join(_FAMILIES)
        raise CheckpointRefused(
            f"config.json: architecture is {config['architecture']!r}; known are timm's {known}, each as its paper has "
            "it; no variant of another name"
        )
    return name


def stated_classes(config: Mapping[str, Any]) -> object:
    """`num_classes` of the first place that says it, as in timm; None: no place does."""
    places = (config, config.get("model_args"), config.get("pretrained_cfg"))
    return next(
        (place["num_classes"] for place in places if isinstance(place, Mapping) and "num_classes" in place), None
    )


def _num_classes(config: Mapping[str, Any]) -> int:
    """The tensors of the head must be as many."""
    classes = stated_classes(config)
    if type(classes) is not int or classes < 0:
        raise CheckpointRefused(f"config.json: num_classes is {classes!r}; it must be a number, 0 for an encoder")
    if classes == 1:
        raise CheckpointRefused(
            "config.json: num_classes is 1, whose softmax is always 1: a regression cannot be exported"
        )
    return classes


def _model_args(config: Mapping[str, Any], args: Mapping[str, Any]) -> dict[str, Any]:
    if refused := sorted(_NOT_OF_A_NETWORK & args.keys()):
        raise CheckpointRefused(f"config.json: model_args: {', '.join(refused)}: no arguments of a network")
    if args.get("in_chans", 3) != 3:
        raise CheckpointRefused(f"config.json: model_args: in_chans is {args['in_chans']!r}; only 3 can be exported")
    pooling = config.get("global_pool")
    if args.get("global_pool", pooling) != pooling and "global_pool" in config:
        raise CheckpointRefused(
            f"config.json: global_pool is {pooling!r}, and {args['global_pool']!r} in model_args: correct the wrong one"
        )
    return {key: value for key, value in args.items() if key != "num_classes"}


def _labels(config: Mapping[str, Any], cfg: Mapping[str, Any], classes: int) -> tuple[str, ...] | None:
    """In the order of the logits."""
    named = [place["label_names"] for place in (config, cfg) if place.get("label_names") is not None]
    if not named or classes == 0:
        return None
    names = named[0]
    if any(other != names for other in named):
        raise CheckpointRefused(
            "config.json: label_names says other names than that in pretrained_cfg: correct the wrong one"
        )
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CheckpointRefused("config.json: label_names must be a list of names, one for each class, in their order")
    if len(names) != classes:
        raise CheckpointRefused(f"config.json: label_names has {len(names)} names, and num_classes is {classes}")
    return tuple(names)
