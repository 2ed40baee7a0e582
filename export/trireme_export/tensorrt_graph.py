"""An ONNX graph as TensorRT takes it: bytes may be cast and nothing else, so what moves them comes after the cast."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir

_MOVES = frozenset({"Transpose", "Reshape", "Identity"})


def cast_bytes_first(path: Path) -> None:
    """Rewrite the graph in `path`: a Cast that follows a move of bytes goes before it. The numbers stay the same."""
    model = ir.load(path)
    moved = [node for node in model.graph if _casts_moved_bytes(node)]
    for cast in moved:
        _swap(model.graph, cast)
    if moved:
        ir.save(model, path)
        onnx.checker.check_model(str(path), full_check=True)


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
