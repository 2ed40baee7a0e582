"""Runs ONNX files in ONNX Runtime, on CPUs. The one module that knows that library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]
from trireme_triton.tensors import Array, Inputs, Outputs

from trireme_network.graph import ANY, Graph, GraphTensor, RunFailed, Stream
from trireme_network.model_config import ConfigRefused
from trireme_network.parameters import OnnxRuntimeParameters

# The config's optimization.graph.level and what the official backend makes of it; any other level: all optimizations.
_LEVELS = {
    -1: ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    1: ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
_TYPES = {
    "tensor(bool)": "TYPE_BOOL",
    "tensor(uint8)": "TYPE_UINT8",
    "tensor(uint16)": "TYPE_UINT16",
    "tensor(uint32)": "TYPE_UINT32",
    "tensor(uint64)": "TYPE_UINT64",
    "tensor(int8)": "TYPE_INT8",
    "tensor(int16)": "TYPE_INT16",
    "tensor(int32)": "TYPE_INT32",
    "tensor(int64)": "TYPE_INT64",
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
    "tensor(string)": "TYPE_STRING",
    "tensor(bfloat16)": "TYPE_BF16",
}
Result = TypeVar("Result")


class OnnxRuntime:
    """An ONNX file, its sessions made as the official backend makes them.

    Raises:
        ConfigRefused: the file cannot be loaded.
    """

    def __init__(
        self,
        file: Path,
        parameters: OnnxRuntimeParameters,
        *,
        threads: int = 1,
        graph_level: int = 0,
        outputs: tuple[str, ...] = (),
    ) -> None:
        self._file = file
        self._parameters = parameters
        self._level = _LEVELS.get(graph_level, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
        self._outputs = outputs
        self._sessions: dict[int, Any] = {}  # by threads
        self.graph = _graph(self._session(threads))

    def open_streams(self, count: int, threads_each: int) -> list[Stream]:
        stream = partial(_run, self._session(threads_each), self._outputs or None, self._run_options())
        return [stream] * count  # a session may run on several threads at a time

    def _session(self, threads: int) -> Any:
        if threads not in self._sessions:
            self._sessions[threads] = _open(self._file, self._options(threads))
        return self._sessions[threads]

    def _options(self, threads: int) -> Any:
        parameters = self._parameters
        options = _quiet_options()
        options.add_session_config_entry("session.force_spinning_stop", "1")  # threads spin in a run, not after it
        options.graph_optimization_level = self._level
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = max(0, parameters.inter_op_threads)
        if parameters.execution_mode == 1:
            options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        if parameters.memory_arena is not None:
            options.enable_cpu_mem_arena = parameters.memory_arena
        if parameters.memory_pattern is not None:
            options.enable_mem_pattern = parameters.memory_pattern
        if parameters.device_allocator is not None:
            options.add_session_config_entry(
                "session.use_device_allocator_for_initializers", parameters.device_allocator
            )
        return options

    def _run_options(self) -> Any:
        options = ort.RunOptions()
        options.log_severity_level = 4
        if self._parameters.arena_shrinkage is not None:
            options.add_run_config_entry("memory.enable_memory_arena_shrinkage", self._parameters.arena_shrinkage)
        return options


def read_onnx_graph(file: Path) -> Graph:
    """A graph's face as ONNX Runtime sees it, which is what the official backend compares the config with.

    Raises:
        ConfigRefused: ONNX Runtime cannot load the file.
    """
    options = _quiet_options()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    return _graph(_open(file, options))


def _graph(session: Any) -> Graph:
    return Graph(
        inputs=tuple(map(_tensor, session.get_inputs())),
        outputs=tuple(map(_tensor, session.get_outputs())),
        overridable=tuple(map(_tensor, session.get_overridable_initializers())),
    )


def _quiet_options() -> Any:
    """Session options that leave it to the caller to report errors."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options


def _open(file: Path, options: Any) -> Any:
    if not file.exists():
        raise ConfigRefused(f"unable to find {str(file)!r}")
    return _translated(
        ConfigRefused, lambda: ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    )


def _run(session: Any, names: tuple[str, ...] | None, options: Any, inputs: Inputs) -> Outputs:
    given = {name: _as_text(values) for name, values in inputs.items()}
    results = _translated(RunFailed, lambda: session.run(names, given, options))
    keys = names or [output.name for output in session.get_outputs()]
    return {key: _as_bytes(values) for key, values in zip(keys, results, strict=True)}


def _translated(as_error: type[Exception], call: Callable[[], Result]) -> Result:
    """`call`, with the library's errors as our own."""
    try:
        return call()
    except Exception as error:  # the library's errors share no narrower base
        raise as_error(str(error)) from error


def _tensor(node: Any) -> GraphTensor:
    shape = tuple(dim if isinstance(dim, int) else ANY for dim in node.shape)
    return GraphTensor(node.name, _TYPES.get(node.type, "TYPE_INVALID"), shape)


def _as_text(values: Array) -> Array:
    """BYTES as the strings ONNX Runtime takes.

    Raises:
        RunFailed: an item is not UTF-8.
    """
    if values.dtype != np.object_:
        return values
    try:
        texts = [item.decode() for item in values.flat]
    except UnicodeDecodeError as error:
        raise RunFailed(f"a string is not UTF-8: {error}") from error
    return np.array(texts, dtype=np.object_).reshape(values.shape)


def _as_bytes(values: Array) -> Array:
    if values.dtype != np.object_:
        return values
    return np.array([text.encode() for text in values.flat], dtype=np.object_).reshape(values.shape)
