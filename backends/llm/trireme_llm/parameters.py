"""An EngineConfig from the string parameters of a model's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trireme_llm.engine_config import EngineConfig, Precision

NUMBERS = {
    "max_length": "max_length",
    "kv_cache_bytes": "kv_cache_bytes",
    "block_size": "block_size",
    "max_batch_tokens": "max_batch_tokens",
    "max_running": "max_running",
    "trireme.threads": "threads",
}
KNOWN = ("checkpoint", "precision", *NUMBERS)


def config_from(parameters: Mapping[str, str], folder: Path) -> EngineConfig:
    """`checkpoint` is a path inside `folder`, by default `folder` itself. Raises ValueError, naming what is allowed."""
    unknown = sorted(set(parameters) - set(KNOWN))
    if unknown:
        raise ValueError(f"parameters {', '.join(unknown)} are not understood; known: {', '.join(KNOWN)}")
    numbers = {field: _number(name, parameters[name]) for name, field in NUMBERS.items() if name in parameters}
    return EngineConfig(
        checkpoint=folder / parameters.get("checkpoint", "."),
        precision=_precision(parameters.get("precision", Precision.BF16.value)),
        **numbers,
    )


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"parameter {name!r} is {text!r}; allowed: whole numbers from 1")
    return int(text)


def _precision(text: str) -> Precision:
    known = [precision.value for precision in Precision]
    if text not in known:
        raise ValueError(f"parameter 'precision' is {text!r}; allowed: {', '.join(known)}")
    return Precision(text)
