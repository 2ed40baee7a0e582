"""What the launcher adds to a model's config for this machine (docs/contracts.md, 4). Speed only, never the answer.

What a config says itself is kept: an instance count or a parameter that is there wins.
"""

from __future__ import annotations

import math

from trireme_server.config_proto import ModelConfig
from trireme_server.machine import Machine

NETWORK_BACKENDS = frozenset({"onnxruntime", "openvino", "tensorrt", "aoti"})
PACKING_BACKENDS = frozenset({"onnxruntime", "aoti"})  # ours take requests of any shape, and know threads and streams
STAGES_BACKEND = "stages"
IMAGE_STAGE = "image"
SMALL_NETWORK = 256 * 2**20  # bytes of the artifact; every process holds it twice

STALL_TIMEOUT = "trireme.stall_timeout_s"  # for the launcher, which keeps it from the backends: they are strict


def override(
    config: ModelConfig, machine: Machine, *, is_official: bool, artifact_bytes: int | None = None
) -> ModelConfig | None:
    """The config to load the model with; None: the one in the repository.

    Args:
        is_official: whether Triton's own C++ backend serves the model, not our stand-in.
        artifact_bytes: size of the network's files, if known.
    """
    changed = _for_machine(config, machine, is_official, artifact_bytes)
    if STALL_TIMEOUT in config.parameters:
        return (changed or config).overridden(parameters={}, without=STALL_TIMEOUT)
    return changed


def _for_machine(
    config: ModelConfig, machine: Machine, is_official: bool, artifact_bytes: int | None
) -> ModelConfig | None:
    if config.backend in NETWORK_BACKENDS:
        if is_official:
            return _official_network(config, machine)
        if config.backend in PACKING_BACKENDS:
            return _stand_in(config, machine.cores, artifact_bytes)
        return _changed(config, {}, instances=1)
    if config.backend == STAGES_BACKEND:
        decodes_images = config.parameters.get("stage") == IMAGE_STAGE
        return _changed(config, {}, instances=machine.cores if decodes_images else 1)
    return None


def _stand_in(config: ModelConfig, cores: int, artifact_bytes: int | None) -> ModelConfig:
    """Processes that use all cores when alone, and get whatever is waiting, of any shape.

    Between two batches a process waits for Triton. A second process computes meanwhile, which is worth its memory where
    a batch is short: where the network is small.
    """
    instances = 2 if cores > 1 and artifact_bytes is not None and artifact_bytes <= SMALL_NETWORK else 1
    parameters = {"trireme.threads": str(cores), "trireme.streams": str(math.ceil(cores / instances))}
    ragged = config.max_batch_size > 0 and config.batches_dynamically and bool(config.ragged_inputs)
    if ragged:
        parameters["trireme.ragged"] = "true"
    return _changed(config, parameters, instances=instances, ragged=ragged)


def _official_network(config: ModelConfig, machine: Machine) -> ModelConfig | None:
    """Left alone it makes two instances with all threads each, which halves the speed of a CPU. A GPU needs neither."""
    if machine.has_gpu:
        return None
    threads = {"intra_op_thread_count": str(machine.cores)} if config.backend == "onnxruntime" else {}
    return _changed(config, threads, instances=1)


def _changed(config: ModelConfig, parameters: dict[str, str], *, instances: int, ragged: bool = False) -> ModelConfig:
    return config.overridden(
        parameters={key: value for key, value in parameters.items() if key not in config.parameters},
        instances=instances if config.instance_count is None else None,
        ragged=ragged,
    )
