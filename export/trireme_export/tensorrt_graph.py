"""An ONNX graph as TensorRT takes it: bytes may be cast and nothing else, and integers of 32 bits are no weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
from numpy.typing import NDArray

_MOVES = frozenset({"Transpose", "Reshape", "Identity"})


def adapt_to_tensorrt(path: Path) -> None:
    """Rewrite the graph in `path`; the numbers stay the same.

    A Cast that follows a move of bytes goes before it, and quantized biases become what they stand for.
    """
    model = ir.load(path)
    moved = [node for node in model.graph if _casts_moved_bytes(node)]
    biases = [node for node in model.graph if _is_bias(node)]
    for cast in moved:
        _swap(model.graph, cast)
    for bias in biases:
        _dequantize(model.graph, bias)
    if moved or biases:
        ir.save(model, path)
        onnx.checker.check_model(str(path), full_check=True)


def _is_bias(node: ir.Node) -> bool:
    value = node.inputs[0] if node.op_type == "DequantizeLinear" else None
    return value is not None and value.const_value is not None and value.dtype == ir.DataType.INT32


def _dequantize(graph: ir.Graph, bias: ir.Node) -> None:
    """The constant that a DequantizeLinear of 32-bit integers gives; it has one axis and no zero point but 0."""
    integers, scale = (_constant(value) for value in bias.inputs[:2])
    result = bias.outputs[0]
    name = f"{result.name}_fp32"
    value = ir.Value(name=name, const_value=ir.tensor(integers.astype(scale.dtype) * scale, name=name))
    value.shape, value.type = result.shape, result.type
    graph.register_initializer(value)
    result.replace_all_uses_with(value)
    unused = [constant for constant in bias.inputs if constant is not None and len(constant.uses()) == 1]
    graph.remove(bias, safe=True)
    for constant in unused:
        assert constant.name is not None, "an initializer has a name"
        del graph.initializers[constant.name]


def _constant(value: ir.Value | None) -> NDArray[Any]:
    assert value is not None, "DequantizeLinear has two inputs"
    assert value.const_value is not None, "the exporter quantizes by constants"
    return value.const_value.numpy()


def _casts_moved_bytes(cast: ir.Node) -> bool:
    if cast.op_type != "Cast":
        return False
    value = cast.inputs[0]
    assert value is not None, "a Cast has an input"
    move = value.producer()
    return (
        move is not None
        and move.op_type in _MOVES
        and value.dtype == ir.DataType.UINT8
        and not value.is_graph_output()
        and len(value.uses()) == 1
    )


def _swap(graph: ir.Graph, cast: ir.Node) -> None:
    """Move, then Cast, becomes Cast, then move."""
    moved = cast.inputs[0]
    assert moved is not None, "it was looked at before"
    move = moved.producer()
    assert move is not None, "it was looked at before"
    result, source = cast.outputs[0], move.inputs[0]
    assert source is not None, "a move has an input"
    graph.remove(cast)
    graph.insert_before(move, cast)
    cast.replace_input_with(0, source)
    early = cast.outputs[0]
    result.replace_all_uses_with(moved, replace_graph_outputs=True)
    move.replace_input_with(0, early)
    early.shape = source.shape
    moved.type = early.type
