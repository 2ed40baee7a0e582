"""What the stand-ins read of a Triton model config. The one place that knows the config's JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme_triton.parameters import raw_parameters

# Parts of a config that change what a C++ backend is given or gives. No Python backend can honour them.
_UNSUPPORTED = ("sequence_batching", "batch_input", "batch_output", "model_operations")


class ConfigRefused(ValueError):
    """The config asks for what the graph, the official backend or this stand-in does not do."""


@dataclass(frozen=True, kw_only=True)
class TensorConfig:
    """An input or output of the config. `dims` are those the graph sees (after `reshape`), without the batch."""

    name: str
    data_type: str
    dims: tuple[int, ...]
    optional: bool = False
    ragged: bool = False


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A model's config, as far as it concerns a network."""

    name: str
    max_batch_size: int
    inputs: tuple[TensorConfig, ...]
    outputs: tuple[TensorConfig, ...]
    file: str  # "" for the backend's default
    parameters: Mapping[str, str]
    graph_level: int
    cpu_accelerators: tuple[str, ...]
    unsupported: tuple[str, ...]


def read_model_config(config: Mapping[str, Any]) -> ModelConfig:
    """The parts of a parsed model config that concern a network."""
    optimization = config.get("optimization") or {}
    accelerators = (optimization.get("execution_accelerators") or {}).get("cpu_execution_accelerator") or []
    return ModelConfig(
        name=config["name"],
        max_batch_size=int(config.get("max_batch_size", 0)),
        inputs=_tensors(config.get("input", [])),
        outputs=_tensors(config.get("output", [])),
        file=config.get("default_model_filename", ""),
        parameters=raw_parameters(config),
        graph_level=int((optimization.get("graph") or {}).get("level", 0)),
        cpu_accelerators=tuple(accelerator["name"] for accelerator in accelerators),
        unsupported=tuple(part for part in _UNSUPPORTED if _filled(config.get(part))),
    )


def _tensors(entries: Sequence[Mapping[str, Any]]) -> tuple[TensorConfig, ...]:
    return tuple(
        TensorConfig(
            name=entry["name"],
            data_type=entry["data_type"],
            dims=tuple(
                int(dim) for dim in (entry["reshape"].get("shape", []) if "reshape" in entry else entry["dims"])
            ),
            optional=bool(entry.get("optional", False)),
            ragged=bool(entry.get("allow_ragged_batch", False)),
        )
        for entry in entries
    )


def _filled(part: object) -> bool:
    """Whether a part of the config says anything: Triton writes out messages that hold nothing but empty lists."""
    if isinstance(part, Mapping):
        return any(_filled(value) for value in part.values())
    return bool(part)
