"""Which task a checkpoint was trained for, by what its own files say. Data, and one function over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trireme_export.checkpoint import Checkpoint
from trireme_export.image_families import IMAGE_FAMILIES
from trireme_export.timm_config import is_timm, stated_classes

MODULES = "modules.json"
# A cross-encoder of sentence-transformers: since its version 6 SETTINGS say so, before, a key of config.json did.
SETTINGS = "config_sentence_transformers.json"
CROSS_ENCODER = "CrossEncoder"
MARK, OLD_MARK = "sentence_transformers", "sbert_ce_default_activation_function"
_BY_ENDING = {
    "ForSequenceClassification": "text-classification",
    "ForImageClassification": "image-classification",
    "ForImageClassificationWithTeacher": "image-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMaskedLM": "fill-mask",
    "ForCausalLM": "text-generation",
    "LMHeadModel": "text-generation",
    "ForConditionalGeneration": "text-to-text-generation",
}


@dataclass(frozen=True, kw_only=True)
class DetectedTask:
    task: str
    because: str


def detect_task(checkpoint: Checkpoint, config: Mapping[str, Any]) -> DetectedTask | None:
    """None: nothing says it, as with a bare encoder."""
    mark = _mark(checkpoint, config)
    if mark is not None and _has_one_label(config):
        return DetectedTask(task="reranking", because=f"{mark}, and config.json one label")
    if MODULES in checkpoint.files:
        kinds = _module_kinds(checkpoint.read_json(MODULES))
        return DetectedTask(task="sentence-embedding", because=f"{MODULES} lists {', '.join(kinds)}")
    if is_timm(config):
        classes = stated_classes(config)
        task = "image-classification" if classes else "image-embedding"
        return DetectedTask(task=task, because=f"config.json of timm says {classes or 'no'} classes")
    for architecture in architectures_of(config):
        for ending, task in _BY_ENDING.items():
            if architecture.endswith(ending):
                return DetectedTask(task=task, because=f"config.json names {architecture}")
        if architecture.endswith("Model") and str(config.get("model_type")) in IMAGE_FAMILIES:
            return DetectedTask(task="image-embedding", because=f"config.json names the bare encoder {architecture}")
    return None


def _mark(checkpoint: Checkpoint, config: Mapping[str, Any]) -> str | None:
    """What says that it is a cross-encoder; None: nothing does."""
    if MODULES in checkpoint.files:
        if SETTINGS in checkpoint.files and checkpoint.read_object(SETTINGS).get("model_type") == CROSS_ENCODER:
            return f"{SETTINGS} says {CROSS_ENCODER}"
        return None
    key = next((key for key in (MARK, OLD_MARK) if key in config), None)
    return None if key is None else f"config.json has {key}"


def without_mark(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config.json` as the model itself has it."""
    return {key: value for key, value in config.items() if key not in (MARK, OLD_MARK)}


def _has_one_label(config: Mapping[str, Any]) -> bool:
    names = config.get("id2label")
    return isinstance(names, dict) and len(names) == 1


def architectures_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    names = [config["architecture"]] if is_timm(config) else config.get("architectures")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _module_kinds(modules: object) -> list[str]:
    listed = modules if isinstance(modules, list) else []
    types = [module.get("type") for module in listed if isinstance(module, dict)]
    return [each.rpartition(".")[2] for each in types if isinstance(each, str)]
