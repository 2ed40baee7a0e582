"""The target `openvino`: the ONNX graph as OpenVINO's own format, for the backend of that name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino  # type: ignore[import-untyped]
from openvino import opset13

from trireme_export import onnx_artifact
from trireme_export.artifact import Made
from trireme_export.assembly import Assembly
from trireme_export.kinds import ArtifactKind
from trireme_export.runtimes import OpenVino, Runtime

MODEL = "model.xml"


def write(assembly: Assembly, kind: ArtifactKind, folder: Path) -> Made:
    """`model.xml` and, beside it, the weights in `model.bin`, as the graph has them: nothing is compressed again."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = onnx_artifact.write(assembly, kind, Path(scratch))
        model = openvino.Core().read_model(Path(scratch) / onnx_artifact.MODEL)
        _fix_dims(model, assembly.steps.steps[1].outputs[0].dims)
        openvino.save_model(model, folder / MODEL, compress_to_fp16=False)
    return made


def runtimes(folder: Path) -> Iterator[Runtime]:
    """OpenVINO alone reads it."""
    yield OpenVino(folder / MODEL)


def _fix_dims(model: Any, dims: Sequence[int]) -> None:
    """Give the output the sizes of the config, which the backend asks for, where OpenVINO's own inference loses them.

    A reshape to what the output is: in `dims`, as in the first dimension, 0 keeps what is there.
    """
    result = model.get_results()[0]
    names = result.output(0).get_names()
    target = np.array([0, *(0 if size < 0 else size for size in dims)], np.int64)
    fixed = opset13.reshape(result.input_value(0), opset13.constant(target), special_zero=True)
    result.input_value(0).get_tensor().set_names(set())
    fixed.output(0).get_tensor().set_names(names)
    result.input(0).replace_source_output(fixed.output(0))
    model.validate_nodes_and_infer_types()
