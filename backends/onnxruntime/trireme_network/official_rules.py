"""Which configs the official backends refuse for a graph, so that a repository that loads here loads there.

The rules of `onnxruntime` are those of its release 24.10 and later, of `openvino` those of 25.11; each was read in
the backend's source (github.com/triton-inference-server) and, for onnxruntime, seen on the built backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trireme_network.graph import ANY, Graph, GraphTensor
from trireme_network.model_config import ConfigRefused, ModelConfig, TensorConfig
from trireme_network.tensor_types import NUMPY_TYPES


def check_for_onnxruntime(config: ModelConfig, graph: Graph, *, ragged: bool) -> None:
    """Refuse what the official onnxruntime backend refuses. `ragged` is our own extension: any ragged input is taken.

    Raises:
        ConfigRefused: the config does not fit the graph or asks for what that backend does not do.
    """
    _refuse_unsupported(config)
    for accelerator in config.cpu_accelerators:
        raise ConfigRefused(f"unknown CPU execution accelerator {accelerator!r}; leave it out")
    _check_count([tensor for tensor in config.inputs if not tensor.optional], graph.inputs)
    for tensor in config.inputs:
        found = _find("input", tensor, (*graph.inputs, *graph.overridable))
        _check_type("input", tensor, found)
        _check_optional(tensor, config.max_batch_size)
        if not tensor.ragged:
            _check_dims("input", tensor, found, batch=config.max_batch_size > 0, exact=False)
        elif not ragged and found.shape != (ANY,):
            raise ConfigRefused(
                f"input {tensor.name!r} allows ragged batches, which need a graph input of shape [-1]; "
                f"the graph has {list(found.shape)}"
            )
    _check_outputs(config, graph, batch=config.max_batch_size > 0)


def check_for_openvino(config: ModelConfig, graph: Graph) -> None:
    """Refuse what the official openvino backend refuses.

    Raises:
        ConfigRefused: the config does not fit the graph or asks for what that backend does not do.
    """
    _refuse_unsupported(config)
    _check_count(config.inputs, graph.inputs)
    for tensor in config.inputs:
        if tensor.optional or tensor.ragged:
            raise ConfigRefused(f"input {tensor.name!r} is optional or ragged; this backend takes neither")
        found = _find("input", tensor, graph.inputs)
        _check_type("input", tensor, found)
        _check_dims("input", tensor, found, batch=config.max_batch_size > 0, exact=False)
    _check_outputs(config, graph, batch=config.max_batch_size > 0)


def _refuse_unsupported(config: ModelConfig) -> None:
    for part in config.unsupported:
        raise ConfigRefused(f"{part} is not supported by this stand-in; the official backend may serve this model")


def _check_count(configured: Sequence[TensorConfig], declared: Sequence[GraphTensor]) -> None:
    if len(configured) != len(declared):
        raise ConfigRefused(
            f"the config lists {len(configured)} inputs; the graph has {len(declared)}: {_names(declared)}"
        )


def _find(kind: str, tensor: TensorConfig, declared: Iterable[GraphTensor]) -> GraphTensor:
    by_name = {candidate.name: candidate for candidate in declared}
    if tensor.name not in by_name:
        raise ConfigRefused(f"unexpected {kind} {tensor.name!r}; the graph has {_names(by_name.values())}")
    return by_name[tensor.name]


def _check_type(kind: str, tensor: TensorConfig, found: GraphTensor) -> None:
    if tensor.data_type != found.data_type:
        raise ConfigRefused(
            f"{kind} {tensor.name!r} has the type {tensor.data_type} in the config and {found.data_type} in the graph"
        )
    if tensor.data_type not in NUMPY_TYPES:
        raise ConfigRefused(f"{kind} {tensor.name!r}: {tensor.data_type} is not supported by a Python backend")


def _check_optional(tensor: TensorConfig, max_batch_size: int) -> None:
    if tensor.optional and max_batch_size > 0:
        raise ConfigRefused(f"input {tensor.name!r} is optional, which a model with a batch dimension cannot have")
    if tensor.optional and tensor.ragged:
        raise ConfigRefused(f"input {tensor.name!r} is optional and ragged; it can be one of them")


def _check_outputs(config: ModelConfig, graph: Graph, *, batch: bool) -> None:
    for tensor in config.outputs:
        found = _find("output", tensor, graph.outputs)
        _check_type("output", tensor, found)
        _check_dims("output", tensor, found, batch=batch, exact=True)


def _check_dims(kind: str, tensor: TensorConfig, found: GraphTensor, *, batch: bool, exact: bool) -> None:
    """Compare shapes; not `exact`: a dimension that the graph leaves open may be fixed by the config."""
    if not found.shape:
        raise ConfigRefused(f"{kind} {tensor.name!r} is a scalar in the graph, which this stand-in does not serve")
    if batch and found.shape[:1] != (ANY,):
        raise ConfigRefused(
            f"{kind} {tensor.name!r}: with max_batch_size > 0 the graph's first dimension must be dynamic; "
            f"the graph has {list(found.shape)}"
        )
    wanted = (ANY, *tensor.dims) if batch else tensor.dims
    same = len(wanted) == len(found.shape) and all(
        dim == declared or (declared == ANY and not exact) for dim, declared in zip(wanted, found.shape, strict=True)
    )
    if not same:
        raise ConfigRefused(
            f"{kind} {tensor.name!r} has the shape {list(wanted)} in the config"
            f"{' (batch dimension included)' if batch else ''} and {list(found.shape)} in the graph"
        )


def _names(tensors: Iterable[GraphTensor]) -> str:
    return ", ".join(sorted(tensor.name for tensor in tensors))
