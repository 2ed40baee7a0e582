"""The runtimes that an artifact is checked in: ONNX Runtime always, OpenVINO where it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Runtime(Protocol):
    """Runs one ONNX file in fp32 on this machine's CPU."""

    name: str

    def run(self, inputs: Mapping[str, Array]) -> Array:
        """The first output."""
        ...


class OnnxRuntime:
    """The runtime of Triton's own `onnxruntime` backend."""

    def __init__(self, path: Path) -> None:
        import onnxruntime  # type: ignore[import-untyped]

        self.name = f"onnxruntime {onnxruntime.__version__}"
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(self, inputs: Mapping[str, Array]) -> Array:
        """The first output."""
        return np.asarray(self._session.run(None, dict(inputs))[0])


class OpenVino:
    """What the shipped networks run with on a bare machine."""

    def __init__(self, path: Path) -> None:
        import openvino  # type: ignore[import-untyped]

        self.name = f"openvino {openvino.__version__.split('-')[0]}"
        self._model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(self, inputs: Mapping[str, Array]) -> Array:
        """The first output."""
        return np.asarray(self._model(dict(inputs))[0])


def installed_runtimes(path: Path) -> Iterator[Runtime]:
    """Each holds the whole model: they are made one after the other."""
    yield OnnxRuntime(path)
    if find_spec("openvino"):
        yield OpenVino(path)
