"""What a checkpoint says of being a cross-encoder of sentence-transformers: how its logit becomes a score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.intake import read_settings
from trireme_export.sentence_layout import read_trained_length
from trireme_export.steps import ScoreFunction
from trireme_export.task_detection import CROSS_ENCODER, MARK, MODULES, OLD_MARK, SETTINGS

_ONLY: Mapping[str, object] = {"model_type": CROSS_ENCODER, "default_prompt_name": None}
_PLAIN_TRANSFORMER: Mapping[str, object] = {
    "do_lower_case": False,  # a tokenizer lowers case by its own tokenizer.json
    "transformer_task": "sequence-classification",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    "module_output_name": "scores",
}
_FUNCTIONS: Mapping[object, ScoreFunction] = {
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.Sigmoid": "sigmoid",
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.Identity": "identity",
    None: "sigmoid",  # what the library takes where there is one logit
}


def read_score_function(checkpoint: Checkpoint, config: Mapping[str, Any]) -> ScoreFunction:
    """How the logit becomes a score.

    Raises:
        CheckpointRefused: a setting that is not known, or a function that is no sigmoid.
    """
    if MODULES in checkpoint.files:
        _check_modules(checkpoint)
        free = {"__version__", "prompts", "keep_in_fp32_modules", "activation_fn"}
        return _function(SETTINGS, read_settings(checkpoint, SETTINGS, free, _ONLY).get("activation_fn"))
    settings = config.get(MARK, {})
    if not isinstance(settings, dict) or settings.keys() - {"activation_fn", "version"}:
        raise CheckpointRefused(
            f"config.json: {MARK} is {settings!r}; known in it are activation_fn and version. "
            "Remove what is certain not to change the model's answers"
        )
    return _function("config.json", settings.get("activation_fn", config.get(OLD_MARK)))


def read_pair_length(checkpoint: Checkpoint) -> int | None:
    """The tokens of query and text that the model was trained with, where the files of sentence-transformers say it.

    Raises:
        CheckpointRefused: they ask for something that is not followed.
    """
    return read_trained_length(checkpoint, _PLAIN_TRANSFORMER) if MODULES in checkpoint.files else None


def _function(file: str, name: object) -> ScoreFunction:
    if not isinstance(name, str | None) or name not in _FUNCTIONS:
        known = ", ".join(str(known) for known in _FUNCTIONS if known)
        raise CheckpointRefused(f"{file}: the activation function is {name!r}; {known} can be exported")
    return _FUNCTIONS[name]


def _check_modules(checkpoint: Checkpoint) -> None:
    modules = checkpoint.read_json(MODULES)
    match modules:
        case [{"path": "", "type": str(kind)}] if kind.startswith("sentence_transformers.") and kind.endswith(
            ".Transformer"
        ):
            pass
        case _:
            raise CheckpointRefused(
                f"{checkpoint.uri}: {MODULES} must list one module, Transformer, whose files lie beside it, to be "
                "exported as a reranker"
            )
