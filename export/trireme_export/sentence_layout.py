"""What a sentence-transformers folder says of its encoder: how tokens are pooled, whether vectors are normalised.

The layout is that of the sentence-transformers library: `modules.json` lists the modules and their folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.intake import read_settings
from trireme_export.task_detection import MODULES, SETTINGS
from trireme_export.text_network import Pooling
from trireme_export.tokenizer_facts import MIN_WINDOW

TRANSFORMER = tuple(  # the library reads the first that is there
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
IN_PLACE: Mapping[str, object] = dict.fromkeys(("module_input_name", "module_output_name"), "sentence_embedding")
_PREFIX = "sentence_transformers."
_PLAIN_TRANSFORMER: Mapping[str, object] = {
    "do_lower_case": False,  # a tokenizer lowers case by its own tokenizer.json
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}
_MODES = {"mean": Pooling.MEAN, "cls": Pooling.CLS}
_OLD_MODES = {
    **{f"pooling_mode_{mode}_tokens": mode for mode in ("mean", "max", "mean_sqrt_len", "weightedmean")},
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True, kw_only=True)
class SentenceLayout:
    """From token vectors to the vector of a text."""

    pooling: Pooling
    normalize: bool
    dense: str | None = None  # folder of the linear layer between the two
    trained_length: int | None = None  # tokens after which sentence-transformers cuts a text


def read_layout(checkpoint: Checkpoint) -> SentenceLayout:
    """The layout of a sentence encoder.

    Raises:
        CheckpointRefused: it has none, or it has a module or a pooling that the exported graph does not have.
    """
    modules = _modules(checkpoint)
    kinds = [_kind(checkpoint, module["type"]) for module in modules]
    steps = [kind for kind in kinds if kind in ("Dense", "Normalize")]
    if kinds[:2] != ["Transformer", "Pooling"] or len(kinds) != 2 + len(steps) or steps != sorted(set(steps)):
        raise CheckpointRefused(
            f"{checkpoint.uri}: {MODULES} lists {', '.join(kinds)}; "
            "only Transformer, Pooling and perhaps Dense and Normalize, in this order, can be exported"
        )
    if modules[0]["path"]:
        raise CheckpointRefused(f"{checkpoint.uri}: {MODULES} keeps the encoder in {modules[0]['path']}")
    _check_prompt(checkpoint)
    if "Normalize" in kinds:
        _check_normalize(checkpoint, f"{modules[-1]['path']}/config.json")
    return SentenceLayout(
        pooling=_pooling(checkpoint, f"{modules[1]['path']}/config.json"),
        normalize="Normalize" in kinds,
        dense=modules[2]["path"] if "Dense" in kinds else None,
        trained_length=read_trained_length(checkpoint, _PLAIN_TRANSFORMER),
    )


def _modules(checkpoint: Checkpoint) -> list[dict[str, str]]:
    match checkpoint.read_json(MODULES):
        case [*modules] if all(
            isinstance(each, dict) and isinstance(each.get("type"), str) and isinstance(each.get("path"), str)
            for each in modules
        ):
            return modules
    raise CheckpointRefused(f"{checkpoint.uri}: {MODULES} is no list of modules, each with a type and a path")


def _kind(checkpoint: Checkpoint, module: str) -> str:
    """`sentence_transformers.models.Pooling` is Pooling; a class from elsewhere is code that is not run."""
    if not module.startswith(_PREFIX):
        raise CheckpointRefused(f"{checkpoint.uri}: {MODULES} names {module}; only {_PREFIX}* can be exported")
    return module.rpartition(".")[2]


def read_trained_length(checkpoint: Checkpoint, only: Mapping[str, object]) -> int | None:
    """The tokens that the module Transformer reads of a text; since version 6 the tokenizer's own files say it instead.

    Raises:
        CheckpointRefused: another key of that module than those in `only`, or another value.
    """
    name = next((name for name in TRANSFORMER if name in checkpoint.files), None)
    if name is None:
        return None
    settings = read_settings(checkpoint, name, {"max_seq_length", "unpad_inputs"}, only)
    length = settings.get("max_seq_length")
    if length is not None and (not isinstance(length, int) or length < MIN_WINDOW):
        raise CheckpointRefused(
            f"{checkpoint.uri}: {name}: max_seq_length is {length!r}; it must be a number of tokens from {MIN_WINDOW}"
        )
    return length


def _check_normalize(checkpoint: Checkpoint, name: str) -> None:
    """Before sentence-transformers 6 it had no file."""
    if name in checkpoint.files:
        read_settings(checkpoint, name, (), IN_PLACE)


def _check_prompt(checkpoint: Checkpoint) -> None:
    """Texts get no prompt; a model that puts one before every text by itself would answer differently."""
    name = checkpoint.read_object(SETTINGS).get("default_prompt_name") if SETTINGS in checkpoint.files else None
    if name is not None:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {SETTINGS}: default_prompt_name is {name!r}, a text put before every text. "
            "Remove it there, and let the callers send it with their texts"
        )


def _pooling(checkpoint: Checkpoint, name: str) -> Pooling:
    """`pooling_mode` names it; before sentence-transformers 6 there was a key for every mode."""
    sizes = {"word_embedding_dimension", "embedding_dimension", "include_prompt"}  # no prompt is put before the texts
    settings = read_settings(checkpoint, name, {*sizes, "pooling_mode", *_OLD_MODES}, {})
    chosen = settings.get("pooling_mode", [mode for key, mode in _OLD_MODES.items() if settings.get(key)])
    match [chosen] if isinstance(chosen, str) else chosen:
        case [str(mode)] if mode in _MODES:
            return _MODES[mode]
        case [*modes] if all(isinstance(mode, str) for mode in modes):
            found = ", ".join(modes) or "nothing"
        case _:
            found = f"a pooling_mode of {chosen!r}"
    raise CheckpointRefused(
        f"{checkpoint.uri}: {name}: pools by {found}; exactly one of {', '.join(_MODES)} can be exported"
    )
