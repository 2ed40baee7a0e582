"""What the official backends fill into a config that leaves out inputs, outputs or `max_batch_size`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trireme_network.graph import ANY, Graph, GraphTensor
from trireme_network.model_config import ConfigRefused, ModelConfig

DEFAULT_MAX_BATCH_SIZE = 4  # of the official onnxruntime backend, unless a command-line option changes it
TensorEntry = dict[str, object]  # one item of a config's `input` or `output`


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What to add to a config. Empty lists: nothing is missing there."""

    max_batch_size: int
    inputs: list[TensorEntry]
    outputs: list[TensorEntry]


def complete_for_onnxruntime(config: ModelConfig, graph: Graph) -> Completion | None:
    """Like the official onnxruntime backend, or `None` if the config says everything.

    A graph whose every input and output begins with a dynamic dimension can be batched.

    Raises:
        ConfigRefused: a `max_batch_size` for a graph that cannot be batched.
    """
    if config.inputs and config.outputs:
        return None
    fixed = [tensor for tensor in (*graph.inputs, *graph.outputs) if tensor.shape[:1] != (ANY,)]
    if config.max_batch_size and fixed:
        raise ConfigRefused(
            f"max_batch_size is {config.max_batch_size}, but {fixed[0].name!r} has shape {list(fixed[0].shape)}, which "
            "cannot be batched; set max_batch_size: 0, or export the graph with a dynamic first dimension"
        )
    max_batch_size = config.max_batch_size or (0 if fixed else DEFAULT_MAX_BATCH_SIZE)
    return _completion(config, graph, max_batch_size)


def complete_for_openvino(config: ModelConfig, graph: Graph) -> Completion | None:
    """Like the official openvino backend, for graphs without a layout: `max_batch_size` stays what it is."""
    if config.inputs and config.outputs:
        return None
    return _completion(config, graph, config.max_batch_size)


def _completion(config: ModelConfig, graph: Graph, max_batch_size: int) -> Completion:
    batch = max_batch_size > 0
    return Completion(
        max_batch_size=max_batch_size,
        inputs=[] if config.inputs else _entries(graph.inputs, batch),
        outputs=[] if config.outputs else _entries(graph.outputs, batch),
    )


def _entries(tensors: Iterable[GraphTensor], batch: bool) -> list[TensorEntry]:
    entries: list[TensorEntry] = []
    for tensor in tensors:
        dims = list(tensor.shape[1:] if batch else tensor.shape) or [1]
        entries.append({"name": tensor.name, "data_type": tensor.data_type, "dims": dims})
    return entries
