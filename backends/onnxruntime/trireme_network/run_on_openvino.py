"""Runs ONNX and OpenVINO IR files in OpenVINO, on CPUs. With `index_guard` the one module that knows that library."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import openvino as ov  # type: ignore[import-untyped]
from trireme_triton.tensors import Array, Inputs, Outputs

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
_PRIMITIVES_KEPT = 8  # by oneDNN below it, which would keep 1,024 of the same once more
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
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_PRIMITIVES_KEPT))  # read at the first run
        self._core = ov.Core()
        self._model = _translated(lambda: self._core.read_model(str(file)))
        if shapes:
            partial_shapes = {name: ov.PartialShape(list(shape)) for name, shape in shapes.items()}
            _translated(lambda: self._model.reshape(partial_shapes))
        self.graph = Graph(
            inputs=tuple(map(_tensor, self._model.inputs)), outputs=tuple(map(_tensor, self._model.outputs))
        )
        guard = add_index_guard(self._model)
        self._face = _Face(
            inputs=frozenset(tensor.name for tensor in self.graph.inputs),
            outputs=tuple(port.get_any_name() for port in self._model.outputs),
            wanted=outputs or tuple(tensor.name for tensor in self.graph.outputs),
            guard=guard,
        )
        native = precision == "bf16" and computes_bf16()
        self._properties = {
            "INFERENCE_PRECISION_HINT": "bf16" if native else "f32",
            "ENABLE_CPU_PINNING": False,  # several processes share the cores: threads pinned to the same one wait
            "CPU_RUNTIME_CACHE_CAPACITY": KERNELS_KEPT,
            **(properties or {}),
        }

    def open_streams(self, count: int, threads_each: int) -> list[Stream]:
        compiled = self._compile(count, threads_each)
        return [
            _Stream(self._face, compiled.create_infer_request(), partial(self._compile, 1, threads_each))
            for _ in range(count)
        ]

    def _compile(self, streams: int, threads_each: int) -> Any:
        threads = streams * threads_each
        properties = {"NUM_STREAMS": streams, "INFERENCE_NUM_THREADS": threads, **self._properties}
        if threads == 1:
            properties["NUM_STREAMS"] = 0  # runs in the calling thread; one stream of one thread hides its errors
        return _translated(lambda: self._core.compile_model(self._model, "CPU", properties))


@dataclass(frozen=True, kw_only=True)
class _Face:
    """What a stream has to know of its model."""

    inputs: frozenset[str]
    outputs: tuple[str, ...]  # all of them, in the model's order
    wanted: tuple[str, ...]
    guard: IndexGuard


class _Stream:
    """An infer request, which is what one stream runs on.

    A compiled model that has failed keeps shapes of the failed run, and refuses inputs that it took before: it is
    replaced by one from `compile_anew`.
    """

    def __init__(self, model: _Face, request: Any, compile_anew: Callable[[], Any]) -> None:
        self._model = model
        self._request = request
        self._compile_anew = compile_anew

    def __call__(self, inputs: Inputs) -> Outputs:
        if inputs.keys() != self._model.inputs:  # the memory of an earlier run would be read
            raise RunFailed(
                f"the inputs are {', '.join(sorted(inputs))}; needed: {', '.join(sorted(self._model.inputs))}"
            )
        if refusal := self._model.guard.refusal_of_inputs(inputs):
            raise RunFailed(refusal)
        try:
            outputs = self._infer(inputs)
        except Exception as error:  # the library's errors share no narrower base
            self._request = self._compile_anew().create_infer_request()
            raise RunFailed(_in_one_line(error)) from error
        if refusal := self._model.guard.refusal_of_outputs(outputs):
            raise RunFailed(refusal)
        return {name: outputs[name].copy() for name in self._model.wanted}

    def _infer(self, inputs: Inputs) -> Outputs:
        """Views of the outputs, until the next run. Tensors set one by one cost half of what a dictionary does."""
        tensors = {name: _shared(values) for name, values in inputs.items()}  # which own the memory: kept for the run
        for name, tensor in tensors.items():
            self._request.set_tensor(name, tensor)
        results = self._request.infer(share_outputs=True)
        return dict(zip(self._model.outputs, results.values(), strict=True))


def _shared(values: Array) -> Any:
    """A tensor of the same memory if OpenVINO can read it there."""
    if not (values.flags.c_contiguous and values.flags.writeable):
        return ov.Tensor(values)
    return ov.Tensor(values, shared_memory=True)


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
