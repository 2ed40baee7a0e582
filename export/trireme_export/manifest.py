"""`manifest.json`: what an entry was made from, what it consists of, and how to tell that it answers rightly."""

from __future__ import annotations

import base64
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from trireme_export.artifact import Made
from trireme_export.assembly import Array, Assembly, GoldenSample, GoldenTensor
from trireme_export.checkpoint import Checkpoint
from trireme_export.kinds import ArtifactKind
from trireme_export.parity import ParityReport
from trireme_export.steps import entry_models

SCHEMA = 1
TOOLS = (
    "torch",
    "transformers",
    "timm",
    "safetensors",
    "tokenizers",
    "onnx",
    "onnxscript",
    "onnxruntime",
    "openvino",
    "pillow",
)


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What was made of a checkpoint, and how it compared."""

    assembly: Assembly
    kind: ArtifactKind
    checkpoint: Checkpoint
    made: Made
    parity: ParityReport
    golden: Sequence[GoldenSample]


def manifest_text(
    entry: str, version: int, recipe: str, verified: Verified, artifacts: Mapping[str, Mapping[str, str | int]]
) -> str:
    """`artifacts` maps paths in the repository to hash and size; `recipe` is the hash that says when to export anew."""
    assembly, parity = verified.assembly, verified.parity
    content = {
        "schema": SCHEMA,
        "entry": entry,
        "version": version,
        "task": assembly.task,
        "models": entry_models(entry),
        "recipe": recipe,
        "source": _source(verified.checkpoint, assembly),
        "artifacts": artifacts,
        "tools": _tools(),
        **verified.made.facts,
        "target": verified.kind.target,
        "precision": verified.kind.precision,
        "dynamic_ranges": assembly.ranges,
        "parity": {
            "cases": parity.cases,
            "runtimes": parity.runtimes,
            "tolerance": parity.tolerance.as_json(),
            "measured": parity.measured.as_json(),
        },
        "golden": [_sample(sample) for sample in verified.golden],
    }
    return json.dumps(content, indent=1) + "\n"


def _source(checkpoint: Checkpoint, assembly: Assembly) -> dict[str, Any]:
    source: dict[str, Any] = {"uri": checkpoint.uri}
    if checkpoint.archive_sha256:
        source["sha256"] = checkpoint.archive_sha256
    return source | {"files": {**checkpoint.files, **assembly.further_inputs}}


def _tools() -> dict[str, str]:
    tools = {"python": platform.python_version()}
    for name in TOOLS:
        try:
            tools[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return tools


def _sample(sample: GoldenSample) -> dict[str, Any]:
    return {
        "inputs": [_tensor(tensor) for tensor in sample.inputs],
        "outputs": [_tensor(tensor) for tensor in sample.outputs],
    }


def _tensor(tensor: GoldenTensor) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": tensor.name,
        "datatype": tensor.data_type,
        "shape": list(tensor.values.shape),
        **_data(tensor.data_type, tensor.values),
    }
    return described if tensor.check is None else described | {"check": dict(tensor.check)}


def _data(data_type: str, values: Array) -> dict[str, list[Any]]:
    flat = values.reshape(-1)
    if data_type == "BYTES":
        return {"data_base64": [base64.b64encode(item).decode() for item in flat]}
    if data_type == "FP32":
        return {"data": [float(f"{value:.9g}") for value in flat]}  # nine digits are every fp32 number's
    return {"data": flat.tolist()}
