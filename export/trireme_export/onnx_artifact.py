"""The target `onnx`: one file, which ONNX Runtime and OpenVINO must both run alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trireme_export.artifact import Made
from trireme_export.assembly import Assembly
from trireme_export.kinds import ArtifactKind
from trireme_export.runtimes import Runtime, installed_runtimes
from trireme_export.to_onnx import write_onnx

MODEL = "model.onnx"


def write(assembly: Assembly, kind: ArtifactKind, folder: Path) -> Made:  # noqa: ARG001 - precisions come next
    """The graph with its weights."""
    return Made(facts=write_onnx(assembly, folder / MODEL))


def runtimes(folder: Path) -> Iterator[Runtime]:
    """ONNX Runtime, and OpenVINO where it is installed."""
    yield from installed_runtimes(folder / MODEL)
