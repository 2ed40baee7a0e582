"""The runtimes that artifacts are checked in. ONNX files: in ONNX Runtime, and in OpenVINO where it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Runtime(Protocol):
    """Runs one artifact on this machine's CPU."""

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
        return self.outputs(inputs)[0]

    def outputs(self, inputs: Mapping[str, Array]) -> list[Array]:
        """All of them, in the order of the file."""
        return [np.asarray(output) for output in self._session.run(None, dict(inputs))]


class OpenVino:
    """What the shipped networks run with on a bare machine."""

    def __init__(self, path: Path) -> None:
        import openvino  # type: ignore[import-untyped]

        self.name = f"openvino {openvino.__version__.split('-')[0]}"
        model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self._request = model.create_infer_request()
        self._count = len(model.outputs)

    def run(self, inputs: Mapping[str, Array]) -> Array:
        """The first output."""
        return self.outputs(inputs)[0]

    def outputs(self, inputs: Mapping[str, Array]) -> list[Array]:
        """All of them. Where there is one core only a run that is waited for raises what went wrong in it."""
        self._request.start_async(dict(inputs))
        self._request.wait()
        return [self._request.get_output_tensor(place).data.copy() for place in range(self._count)]


def installed_runtimes(path: Path) -> Iterator[OnnxRuntime | OpenVino]:
    """Each holds the whole model: they are made one after the other."""
    yield OnnxRuntime(path)
    if find_spec("openvino"):
        yield OpenVino(path)
