"""From a config and a version folder to a ready network, in the manner of the official openvino backend.

That backend fixes the batch of a model with `max_batch_size: N` to exactly N, so requests never run together.
"""

from __future__ import annotations

from pathlib import Path

from trireme_triton.cold_start import ColdStart

from trireme_network.auto_complete import Completion, complete_for_openvino
from trireme_network.cores import usable_cores
from trireme_network.fixed_batch import FixedBatch
from trireme_network.graph import ANY
from trireme_network.input_shapes import InputShapes
from trireme_network.model_config import ConfigRefused, ModelConfig
from trireme_network.network import Network
from trireme_network.official_rules import check_for_openvino
from trireme_network.parameters import OpenVinoParameters, read_documented, read_own
from trireme_network.stream_pool import StreamPool
from trireme_network.warm_up import zero_inputs


def load(config: ModelConfig, version: Path, kind: str, cold_start: ColdStart) -> Network | FixedBatch:
    """A network that answers. `kind` is the instance's: "CPU", "GPU" or "MODEL".

    Raises:
        ConfigRefused, InvalidParameter: what is wrong with the config or the file.
    """
    if kind != "CPU":
        raise ConfigRefused(f"the instance group asks for KIND_{kind}; this backend computes on CPUs only")
    documented = read_documented(OpenVinoParameters, config.parameters)
    _refuse_unsupported(documented)
    read_own(config.parameters)
    with cold_start.phase("imports"):
        from trireme_network.run_on_openvino import OpenVino
    with cold_start.phase("read"):
        runtime = OpenVino(
            _file(config, version),
            precision="bf16" if documented.bf16 else "fp32",
            outputs=tuple(tensor.name for tensor in config.outputs),
            properties=_properties(documented),
            shapes=_shapes(config) if documented.reshape == "yes" else None,
        )
    check_for_openvino(config, runtime.graph)
    with cold_start.phase("compile"):
        pool = StreamPool(runtime, documented.threads or usable_cores(), 0)
    rows = config.max_batch_size
    with cold_start.phase("warmup"):
        for piece in zero_inputs(config.inputs, [(rows,) if rows else ()]):
            pool.warm_up(piece)
    shapes = InputShapes(config.inputs, batches=rows > 0)
    network = Network(pool, shapes, batches=False)
    return FixedBatch(network, shapes, rows, pads=documented.pad_batch == "yes") if rows else network


def complete(config: ModelConfig, version: Path) -> Completion | None:
    """What is missing in the config, or `None`.

    Raises:
        ConfigRefused: the file cannot be read.
    """
    if config.inputs and config.outputs:
        return None
    from trireme_network.run_on_openvino import OpenVino

    return complete_for_openvino(config, OpenVino(_file(config, version)).graph)


def _file(config: ModelConfig, version: Path) -> Path:
    return version / (config.file or "model.xml")


def _refuse_unsupported(documented: OpenVinoParameters) -> None:
    if documented.device not in (None, "cpu"):
        raise ConfigRefused(f"TARGET_DEVICE is {documented.device!r}; this stand-in computes on the CPU only")
    if documented.extension:
        raise ConfigRefused("CPU_EXTENSION_PATH is not supported by this stand-in")
    if documented.streams not in (None, "auto", "numa") and not documented.streams.isdecimal():
        raise ConfigRefused(f"NUM_STREAMS is {documented.streams!r}; it must be AUTO, NUMA or a number")


def _properties(documented: OpenVinoParameters) -> dict[str, object]:
    """The parameters that OpenVINO knows under the same name."""
    given = {
        "NUM_STREAMS": documented.streams and documented.streams.upper(),
        "COMPILATION_NUM_THREADS": documented.compilation_threads,
        "PERFORMANCE_HINT": documented.performance_hint and documented.performance_hint.upper(),
    }
    return {name: value for name, value in given.items() if value is not None}


def _shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The inputs' shapes as the config has them, batch dimension included."""
    batch = (ANY,) if config.max_batch_size else ()
    return {tensor.name: batch + tensor.dims for tensor in config.inputs}
