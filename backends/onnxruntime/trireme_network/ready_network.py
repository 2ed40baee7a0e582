"""From the streams of a graph to a network that has answered once. What the stand-ins that pack rows have in common."""

from __future__ import annotations

from trireme_triton.cold_start import ColdStart

from trireme_network.graph import ANY, Graph
from trireme_network.input_shapes import InputShapes
from trireme_network.model_config import ConfigRefused, ModelConfig
from trireme_network.network import Network
from trireme_network.official_rules import check_for_onnxruntime
from trireme_network.packed_segments import SegmentRules
from trireme_network.parameters import TriremeParameters
from trireme_network.stream_pool import StreamPool
from trireme_network.warm_up import text_inputs, zero_inputs


def check_graph(config: ModelConfig, graph: Graph, own: TriremeParameters) -> None:
    """The config fits the graph as the official backend demands, and as packing does.

    Raises:
        ConfigRefused: names what does not.
    """
    check_for_onnxruntime(config, graph, ragged=own.ragged)
    if own.segments:
        _check_segments(config, graph, own.segments)


def _check_segments(config: ModelConfig, graph: Graph, segments: str) -> None:
    """Rows can be packed if every input is one row of tokens per text and every output one row per segment, or token.

    Which of the two an output has is what `trireme.segment_outputs` says: no shape tells it before a text is computed.

    Raises:
        ConfigRefused: names the tensor that is not.
    """
    if segments not in (tensor.name for tensor in config.inputs):
        raise ConfigRefused(f"trireme.segments names {segments!r}, which is no input of this model")
    if config.max_batch_size == 0:
        raise ConfigRefused("trireme.segments needs max_batch_size > 0")
    for tensor in graph.inputs:
        if tensor.shape != (ANY, ANY):
            raise ConfigRefused(f"trireme.segments needs inputs [batch, length]; {tensor.name!r} is {tensor.shape}")
    wanted = {tensor.name for tensor in config.outputs}
    for tensor in graph.outputs:
        if tensor.name in wanted and tensor.shape[1:2] != (ANY,):
            raise ConfigRefused(
                f"trireme.segments needs outputs [batch, segments, ...]; {tensor.name!r} is {tensor.shape}"
            )


def make_ready(config: ModelConfig, own: TriremeParameters, pool: StreamPool, cold_start: ColdStart) -> Network:
    """A network that has answered what is likely to be asked."""
    batches = config.max_batch_size > 0
    with cold_start.phase("warmup"):
        _warm_up(pool, config, own.segments)
    shapes = InputShapes(config.inputs, batches=batches)
    return Network(pool, shapes, batches=batches, segments=_segment_rules(own))


def _segment_rules(own: TriremeParameters) -> SegmentRules | None:
    if own.segments is None:
        return None
    return SegmentRules(own.segments, own.segment_tokens, per_token=own.segment_outputs == "tokens")


def _warm_up(pool: StreamPool, config: ModelConfig, segments: str | None) -> None:
    if segments:
        pieces = text_inputs(config.inputs, segments)
    else:
        pieces = zero_inputs(config.inputs, [(1,), (min(4, config.max_batch_size),)] if config.max_batch_size else [()])
    for piece in pieces:
        pool.warm_up(piece)
