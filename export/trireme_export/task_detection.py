"""Which task a checkpoint was trained for, by what its own files say. Data, and one function over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trireme_export.checkpoint import Checkpoint
from trireme_export.image_families import IMAGE_FAMILIES
from trireme_export.timm_config import is_timm

MODULES = "modules.json"
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
    if MODULES in checkpoint.files:
        kinds = _module_kinds(checkpoint.read_json(MODULES))
        return DetectedTask(task="sentence-embedding", because=f"{MODULES} lists {', '.join(kinds)}")
    if is_timm(config):
        classes = config.get("num_classes")
        task = "image-classification" if classes else "image-embedding"
        return DetectedTask(task=task, because=f"config.json of timm says {classes or 'no'} classes")
    for architecture in architectures_of(config):
        for ending, task in _BY_ENDING.items():
            if architecture.endswith(ending):
                return DetectedTask(task=task, because=f"config.json names {architecture}")
        if architecture.endswith("Model") and str(config.get("model_type")) in IMAGE_FAMILIES:
            return DetectedTask(task="image-embedding", because=f"config.json names the bare encoder {architecture}")
    return None


def architectures_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    names = [config["architecture"]] if is_timm(config) else config.get("architectures")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _module_kinds(modules: object) -> list[str]:
    listed = modules if isinstance(modules, list) else []
    types = [module.get("type") for module in listed if isinstance(module, dict)]
    return [each.rpartition(".")[2] for each in types if isinstance(each, str)]
