"""The parameters a network's config may carry: those the official backends document, and our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from trireme_triton.parameters import parameter, read_parameters

PREFIX = "trireme."
_BOOLEANS = {"1": "true", "on": "true", "0": "false", "off": "false"}  # what the official backend also takes

Documented = TypeVar("Documented")


@dataclass(frozen=True, kw_only=True)
class TriremeParameters:
    """What this stand-in does beyond the official backend: speed, and what the launcher may rely on. No answer."""

    runtime: Literal["onnxruntime", "openvino"] = parameter("onnxruntime", key="trireme.runtime")
    precision: Literal["fp32", "bf16"] = parameter("fp32", key="trireme.precision")
    segments: str | None = parameter(None, key="trireme.segments")  # the input that carries segment numbers
    segment_tokens: int | None = parameter(None, key="trireme.segment_tokens", minimum=1)  # the longest one
    segment_outputs: Literal["segments", "tokens"] = parameter("segments", key="trireme.segment_outputs")  # a row each
    ragged: bool = parameter(False, key="trireme.ragged")
    threads: int | None = parameter(None, key="trireme.threads", minimum=1)  # None: as many as this process may use
    streams: int | None = parameter(None, key="trireme.streams", minimum=1)  # of one thread each; None: one per thread
    heartbeat: bool = parameter(False, key="trireme.heartbeat")  # a run's time depends on its inputs' sizes alone
    generation: str | None = parameter(None, key="trireme.generation")  # a new value makes Triton load anew


@dataclass(frozen=True, kw_only=True)
class OnnxRuntimeParameters:
    """The parameters of the official onnxruntime backend (its README, "Model Config Options") that concern CPUs."""

    intra_op_threads: int = parameter(0, key="intra_op_thread_count")  # 0: as many as there are cores
    inter_op_threads: int = parameter(0, key="inter_op_thread_count")
    execution_mode: int = parameter(0, key="execution_mode", minimum=0, maximum=1)  # 1: branches run in parallel
    memory_arena: bool | None = parameter(None, key="enable_mem_arena")
    memory_pattern: bool | None = parameter(None, key="enable_mem_pattern")
    device_allocator: str | None = parameter(None, key="session.use_device_allocator_for_initializers")
    arena_shrinkage: str | None = parameter(None, key="memory.enable_memory_arena_shrinkage")


@dataclass(frozen=True, kw_only=True)
class OpenVinoParameters:
    """The parameters of the official openvino backend (its README, "Parameters")."""

    threads: int | None = parameter(None, key="INFERENCE_NUM_THREADS", minimum=0)
    compilation_threads: int | None = parameter(None, key="COMPILATION_NUM_THREADS", minimum=0)
    bf16: Literal["yes"] | None = parameter(None, key="HINT_BF16")
    streams: str | None = parameter(None, key="NUM_STREAMS")  # AUTO, NUMA or a number
    performance_hint: Literal["latency", "throughput", "cumulative_throughput"] | None = parameter(
        None, key="PERFORMANCE_HINT"
    )
    pad_batch: str | None = parameter(None, key="ENABLE_BATCH_PADDING")
    reshape: str | None = parameter(None, key="RESHAPE_IO_LAYERS")
    device: str | None = parameter(None, key="TARGET_DEVICE")
    extension: str | None = parameter(None, key="CPU_EXTENSION_PATH")


def read_own(raw: Mapping[str, str]) -> TriremeParameters:
    """Our own parameters.

    Raises:
        InvalidParameter: an unknown one, or a value it cannot take.
    """
    return read_parameters(TriremeParameters, {key: text for key, text in raw.items() if key.startswith(PREFIX)})


def read_documented(cls: type[Documented], raw: Mapping[str, str]) -> Documented:
    """The official backend's parameters. Like there, unknown ones are ignored and case does not matter.

    Raises:
        InvalidParameter: a value that one of them cannot take.
    """
    texts = {key: text.lower() for key, text in raw.items()}
    booleans = {key: _BOOLEANS.get(text, text) for key, text in texts.items() if key.startswith("enable_mem_")}
    return read_parameters(cls, {**texts, **booleans}, ignored_prefixes=("",))
