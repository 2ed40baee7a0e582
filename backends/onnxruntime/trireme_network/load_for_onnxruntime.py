"""From a config and a version folder to a ready network, in the manner of the official onnxruntime backend."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trireme_triton.cold_start import ColdStart

from trireme_network.auto_complete import Completion, complete_for_onnxruntime
from trireme_network.cores import usable_cores
from trireme_network.graph import Graph, Runtime
from trireme_network.model_config import ConfigRefused, ModelConfig
from trireme_network.network import Network
from trireme_network.parameters import OnnxRuntimeParameters, TriremeParameters, read_documented, read_own
from trireme_network.ready_network import check_graph, make_ready
from trireme_network.stream_pool import StreamPool


@dataclass(frozen=True)
class _Settings:
    """The config's parameters, and what follows from them on this machine."""

    documented: OnnxRuntimeParameters
    own: TriremeParameters
    batches: bool

    @property
    def threads(self) -> int:
        """Threads for a run that has the machine to itself."""
        return self.own.threads or max(0, self.documented.intra_op_threads) or usable_cores()

    @property
    def streams(self) -> int:
        """Narrow streams: as many as the config says, else one per thread, but none where it says no more than how the
        official backend shall run."""
        if not self.batches:
            return 0
        is_official = self.documented.intra_op_threads > 0 and not self.own.threads
        return self.own.streams or (0 if is_official else self.threads)


def load(config: ModelConfig, version: Path, kind: str, cold_start: ColdStart) -> Network:
    """A network that answers. `kind` is the instance's: "CPU", "GPU" or "MODEL".

    Raises:
        ConfigRefused, InvalidParameter: what is wrong with the config or the file.
    """
    if kind == "GPU":
        raise ConfigRefused("the instance group asks for KIND_GPU; this stand-in computes on CPUs only")
    settings = _Settings(
        read_documented(OnnxRuntimeParameters, config.parameters),
        read_own(config.parameters),
        config.max_batch_size > 0,
    )
    graph, runtime = _read(config, _file(config, version), settings, cold_start)
    check_graph(config, graph, settings.own)
    with cold_start.phase("compile"):
        pool = StreamPool(runtime, settings.threads, settings.streams)
    return make_ready(config, settings.own, pool, cold_start)


def complete(config: ModelConfig, version: Path) -> Completion | None:
    """What is missing in the config, or `None`.

    Raises:
        ConfigRefused: the file cannot be read, or has no batch dimension where the config wants one.
    """
    if config.inputs and config.outputs:
        return None
    from trireme_network.run_on_onnxruntime import read_onnx_graph

    return complete_for_onnxruntime(config, read_onnx_graph(_file(config, version)))


def _file(config: ModelConfig, version: Path) -> Path:
    """The model file; a folder of its name holds a `model.onnx`."""
    file = version / (config.file or "model.onnx")
    return file / "model.onnx" if file.is_dir() else file


def _read(config: ModelConfig, file: Path, settings: _Settings, cold_start: ColdStart) -> tuple[Graph, Runtime]:
    """The graph as ONNX Runtime sees it, for the checks, and what will run it."""
    with cold_start.phase("imports"):
        from trireme_network.run_on_onnxruntime import OnnxRuntime, read_onnx_graph
    outputs = tuple(tensor.name for tensor in config.outputs)
    if settings.own.runtime == "onnxruntime":
        with cold_start.phase("compile"):
            session = OnnxRuntime(
                file, settings.documented, threads=settings.threads, graph_level=config.graph_level, outputs=outputs
            )
        return session.graph, session
    with cold_start.phase("imports"):
        from trireme_network.run_on_openvino import OpenVino
    with cold_start.phase("read"):
        graph, runtime = read_onnx_graph(file), OpenVino(file, precision=settings.own.precision, outputs=outputs)
    _check_tensors(config, runtime.graph)
    return graph, runtime


def _check_tensors(config: ModelConfig, graph: Graph) -> None:
    """OpenVINO computes some types in narrower ones and takes no optional inputs: `trireme.*` must not change answers.

    Raises:
        ConfigRefused: names the tensor.
    """
    known = {(tensor.name, tensor.data_type) for tensor in (*graph.inputs, *graph.outputs)}
    for tensor in (*config.inputs, *config.outputs):
        if (tensor.name, tensor.data_type) not in known:
            raise ConfigRefused(
                f"trireme.runtime = openvino does not compute {tensor.name!r} as {tensor.data_type}; use onnxruntime"
            )
