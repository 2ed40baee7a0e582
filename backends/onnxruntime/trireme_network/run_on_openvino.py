"""Runs ONNX and OpenVINO IR files in OpenVINO, on CPUs. With `index_guard` the one module that knows that library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import openvino as ov  # type: ignore[import-untyped]
from trireme_triton.tensors import Inputs, Outputs

from trireme_network.cores import computes_bf16
from trireme_network.graph import ANY, Graph, GraphTensor, RunFailed, Stream
from trireme_network.index_guard import IndexGuard, add_index_guard
from trireme_network.model_config import ConfigRefused

Precision = Literal["fp32", "bf16"]
Properties = Mapping[str, object]  # OpenVINO's own names, "NUM_STREAMS"

# The CPU plugin computes the 64-bit and unsigned 32-bit types that are missing here in a narrower type, in silence.
# INT64 is computed as INT32 too: inputs are checked to fit, what a graph computes from them is not.
_TYPES = {
    "boolean": "TYPE_BOOL",
    "u8": "TYPE_UINT8",
    "i8": "TYPE_INT8",
    "i16": "TYPE_INT16",
    "i32": "TYPE_INT32",
    "i64": "TYPE_INT64",
    "f16": "TYPE_FP16",
    "f32": "TYPE_FP32",
}
KERNELS_KEPT = 128  # prepared for shapes met before; OpenVINO's own 5,000 let the memory grow for hours
Result = TypeVar("Result")


class OpenVino:
    """A graph that OpenVINO has read.

    `outputs` are those to return, by default all; `properties` are added to those of every compiled model; `shapes`
    fix the shapes of inputs.

    Raises:
        ConfigRefused: the file cannot be read or reshaped.
    """

    def __init__(
        self,
        file: Path,
        *,
        precision: Precision = "fp32",
        outputs: tuple[str, ...] = (),
        properties: Properties | None = None,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        if not file.exists():
            raise ConfigRefused(f"unable to find {str(file)!r}")
        self._core = ov.Core()
        self._model = _translated(lambda: self._core.read_model(str(file)))
        if shapes:
            partial_shapes = {name: ov.PartialShape(list(shape)) for name, shape in shapes.items()}
            _translated(lambda: self._model.reshape(partial_shapes))
        self.graph = Graph(
            inputs=tuple(map(_tensor, self._model.inputs)), outputs=tuple(map(_tensor, self._model.outputs))
        )
        self._outputs = frozenset(outputs or (tensor.name for tensor in self.graph.outputs))
        self._guard = add_index_guard(self._model)
        native = precision == "bf16" and computes_bf16()
        self._properties = {
            "INFERENCE_PRECISION_HINT": "bf16" if native else "f32",
            "ENABLE_CPU_PINNING": False,  # several processes share the cores: threads pinned to the same one wait
            "CPU_RUNTIME_CACHE_CAPACITY": KERNELS_KEPT,
            **(properties or {}),
        }

    def open_streams(self, count: int, threads_each: int) -> list[Stream]:
        properties = {"NUM_STREAMS": count, "INFERENCE_NUM_THREADS": count * threads_each, **self._properties}
        compiled = _translated(lambda: self._core.compile_model(self._model, "CPU", properties))
        return [_Stream(compiled, self._outputs, self._guard) for _ in range(count)]


class _Stream:
    """An infer request, which is what one stream runs on."""

    def __init__(self, compiled: Any, wanted: frozenset[str], guard: IndexGuard) -> None:
        self._request = compiled.create_infer_request()
        self._names = [port.get_any_name() for port in compiled.outputs]
        self._wanted = wanted
        self._guard = guard

    def __call__(self, inputs: Inputs) -> Outputs:
        if refusal := self._guard.refusal_of_inputs(inputs):
            raise RunFailed(refusal)
        try:
            outputs = self._infer(inputs)
        except Exception as error:  # the library's errors share no narrower base
            raise RunFailed(_in_one_line(error)) from error
        if refusal := self._guard.refusal_of_outputs(outputs):
            raise RunFailed(refusal)
        return {name: outputs[name].copy() for name in self._wanted}

    def _infer(self, inputs: Inputs) -> Outputs:
        """Views of the outputs, until the next run. Tensors set one by one cost half of what a dictionary does."""
        for name, values in inputs.items():
            shareable = values.flags.c_contiguous and values.flags.writeable
            self._request.set_tensor(name, ov.Tensor(values if shareable else values.copy(), shared_memory=True))
        results = self._request.infer(share_outputs=True)
        return dict(zip(self._names, results.values(), strict=True))


def _tensor(port: Any) -> GraphTensor:
    shape = tuple(dim.get_length() if dim.is_static else ANY for dim in port.get_partial_shape())
    return GraphTensor(port.get_any_name(), _TYPES.get(port.get_element_type().get_type_name(), "TYPE_INVALID"), shape)


def _translated(call: Callable[[], Result]) -> Result:
    """`call`, with the library's errors as refusals of the config."""
    try:
        return call()
    except Exception as error:
        raise ConfigRefused(_in_one_line(error)) from error


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
