"""Which stages there are. A new stage is one class in one module and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from trireme_triton.parameters import InvalidParameter, raw_parameters, read_parameters
from trireme_triton.progress import Progress

from trireme_stages.stage import Model, Stage, StageKind, bind_sizes

# By name, so that a stub imports only the libraries of its own stage.
STAGES = {
    "tokenize": "trireme_stages.tokenization:Tokenize",
    "tokenize_pairs": "trireme_stages.pair_tokenization:TokenizePairs",
    "embedding": "trireme_stages.embedding:Embedding",
    "entities": "trireme_stages.entities:Entities",
    "classification": "trireme_stages.classification:Classification",
    "score": "trireme_stages.scoring:Score",
    "image": "trireme_stages.image:PreprocessImage",
    "top_k": "trireme_stages.top_k:TopK",
}


def stage_name(config: Mapping[str, Any]) -> str:
    """The parameter `stage` of a model's config.

    Raises:
        InvalidParameter: it is missing or names no stage.
    """
    name = raw_parameters(config).get("stage")
    if name not in STAGES:
        raise InvalidParameter(f"parameter 'stage' is {name!r}; it must be one of {', '.join(sorted(STAGES))}")
    return name


def find_stage(name: str) -> StageKind:
    """The class of the stage `name`, one of STAGES."""
    module, _, attribute = STAGES[name].partition(":")
    return cast(StageKind, getattr(import_module(module), attribute))


def load_stage(kind: StageKind, config: Mapping[str, Any], folder: Path, progress: Progress) -> Stage:
    """The stage a model's config asks for, its files read from the version folder `folder`.

    Raises:
        InvalidParameter: a parameter, a file that a parameter names, or a tensor of the config does not fit the stage.
    """
    raw = {key: value for key, value in raw_parameters(config).items() if key != "stage"}
    parameters = read_parameters(kind.Parameters, raw, ignored_prefixes=("trireme.",))
    return kind(parameters, Model(folder=folder, sizes=bind_sizes(parameters.signature(), config), progress=progress))
