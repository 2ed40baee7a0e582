"""From a config and a version folder to a ready network, of a package that `trireme export --to aoti` wrote.

There is no official backend of that name: the configs are those of `onnxruntime`, and as strict.
"""

from __future__ import annotations

from pathlib import Path

from trireme_triton.cold_start import ColdStart

from trireme_network.aoti_package import read_package, refuse_elsewhere
from trireme_network.auto_complete import Completion, complete_for_onnxruntime
from trireme_network.cores import usable_cores
from trireme_network.model_config import ConfigRefused, ModelConfig
from trireme_network.network import Network
from trireme_network.parameters import read_own
from trireme_network.ready_network import check_graph, make_ready
from trireme_network.stream_pool import StreamPool

_COMPILED_IN = ("trireme.runtime", "trireme.precision")


def load(config: ModelConfig, version: Path, kind: str, cold_start: ColdStart) -> Network:
    """A network that answers. `kind` is the instance's: "CPU", "GPU" or "MODEL".

    Raises:
        ConfigRefused, InvalidParameter: what is wrong with the config or the file, or the machine is another one.
    """
    if kind == "GPU":
        raise ConfigRefused("the instance group asks for KIND_GPU; this backend computes on CPUs only")
    for key in _COMPILED_IN:
        if key in config.parameters:
            raise ConfigRefused(f"{key} cannot be chosen here: it is compiled into the package; leave it out")
    own = read_own(config.parameters)
    with cold_start.phase("read"):
        package = read_package(_file(config, version))
        refuse_elsewhere(package)
    check_graph(config, package.graph, own)
    with cold_start.phase("imports"):
        from trireme_network.run_on_aoti import AotInductor
    threads = own.threads or usable_cores()
    streams = (own.streams or threads) if config.max_batch_size else 0
    with cold_start.phase("compile"):
        pool = StreamPool(AotInductor(package, runs=max(1, streams)), threads, streams)
    return make_ready(config, own, pool, cold_start)


def complete(config: ModelConfig, version: Path) -> Completion | None:
    """What is missing in the config, or `None`.

    Raises:
        ConfigRefused: the file cannot be read, or has no batch dimension where the config wants one.
    """
    if config.inputs and config.outputs:
        return None
    return complete_for_onnxruntime(config, read_package(_file(config, version)).graph)


def _file(config: ModelConfig, version: Path) -> Path:
    return version / (config.file or "model.pt2")
