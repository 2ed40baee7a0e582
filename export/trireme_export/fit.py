"""Whether the exporter could build its network from tensors of such names and shapes, which have no numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme_export.errors import CheckpointRefused
from trireme_export.families import FAMILIES
from trireme_export.image_families import IMAGE_FAMILIES
from trireme_export.stored_tensor import StoredTensor
from trireme_export.task_detection import without_mark
from trireme_export.timm_config import is_timm, read_timm_config

_DTYPES = {  # as torch calls them; any other is a float of eight bits or fewer
    **{"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "C64": "complex64", "BOOL": "bool"},
    **{
        f"{letter}{bits}": f"{kind}{bits}" for letter, kind in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)
    },
}


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What the exporter's own intake says."""

    refusal: str | None = None  # None: every key of the config and every tensor is accounted for
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()


def fit_of(config: Mapping[str, Any], tensors: Sequence[StoredTensor], task: str | None) -> Fit | None:
    """`task` is None if it is not known. None: the exporter does not know the family. Loads torch and transformers."""
    model_type = config.get("model_type")
    known = isinstance(model_type, str) and model_type in FAMILIES | IMAGE_FAMILIES
    if not known and not is_timm(config):
        return None
    return _build(config, tensors, task)


def _build(config: Mapping[str, Any], tensors: Sequence[StoredTensor], task: str | None) -> Fit:
    import torch

    from trireme_export.intake import TensorsDoNotFit
    from trireme_export.sizes import check_sizes

    build = _builder(config)
    try:
        check_sizes(config, [each.shape for each in tensors])  # building them could take for ever
        with torch.device("meta"):
            build(config, {each.name: _empty(each) for each in tensors}, task)
    except TensorsDoNotFit as error:
        return Fit(refusal=str(error), missing=tuple(error.missing), unexpected=tuple(error.unexpected))
    except CheckpointRefused as error:
        return Fit(refusal=str(error))
    except Exception as error:  # the library raises whatever a config makes it do
        return Fit(refusal=f"config.json: the transformers library refuses it: {' '.join(str(error).split())}")
    return Fit()


def _builder(config: Mapping[str, Any]) -> Callable[[Mapping[str, Any], Mapping[str, Any], str | None], None]:
    if is_timm(config):
        return _build_timm_model
    return _build_image_model if config["model_type"] in IMAGE_FAMILIES else _build_text_model


def _build_timm_model(config: Mapping[str, Any], weights: Mapping[str, Any], _task: str | None) -> None:
    from trireme_export.timm_model import build_timm

    build_timm(read_timm_config(config), weights)


def _build_text_model(config: Mapping[str, Any], weights: Mapping[str, Any], task: str | None) -> None:
    from trireme_export.text_encoder import CLASSIFIERS, build_classifier, build_encoder

    if task in CLASSIFIERS:
        own = without_mark(config) if task == "reranking" else config
        build_classifier(CLASSIFIERS[task], own, weights, "eager")
    else:
        build_encoder(config, weights, "eager")


def _build_image_model(config: Mapping[str, Any], weights: Mapping[str, Any], task: str | None) -> None:
    from trireme_export.library_image_model import build_logits, build_vector

    if task == "image-classification":
        build_logits(config, weights)
    else:
        build_vector(config, weights)


def _empty(tensor: StoredTensor) -> Any:
    """Of the same shape and dtype, without storage."""
    import torch

    return torch.empty(tensor.shape, dtype=getattr(torch, _DTYPES.get(tensor.dtype, "float32")), device="meta")
