"""Makes OpenVINO notice indices outside their table: its CPU Gather gives zeros for them, and the answer looks right.

Covers Gather from a table whose size is known (embeddings: words, positions, types); not GatherND or GatherElements.
"""

from __future__ import annotations

from typing import Any

import openvino as ov  # type: ignore[import-untyped]
from openvino import opset13 as ops

EXCESS = "trireme_index_excess"  # an extra output, one item per guarded Gather: how far an index is out; 0 or less: in


def add_index_guard(model: Any) -> bool:
    """Add the output EXCESS to a model that has lookups by data; says whether it has."""
    excesses = [_excess(node) for node in model.get_ordered_ops() if _is_lookup(node)]
    if not excesses:
        return False
    together = ops.concat(excesses, axis=0)
    together.output(0).get_tensor().set_names({EXCESS})
    model.add_outputs([together.output(0)])
    return True


def _is_lookup(node: Any) -> bool:
    """Whether it is a Gather by computed indices along an axis of known size."""
    if node.get_type_name() != "Gather" or not _is_constant(node, 2) or _is_constant(node, 1):
        return False
    return bool(node.input_value(0).get_partial_shape()[_axis(node)].is_static)


def _is_constant(node: Any, position: int) -> bool:
    return bool(node.input_value(position).get_node().get_type_name() == "Constant")


def _axis(node: Any) -> int:
    return int(node.input_value(2).get_node().get_data().item())


def _excess(node: Any) -> Any:
    """max(largest - (size - 1), -size - smallest) of a Gather's indices, which may count from the end: shape [1]."""
    size = node.input_value(0).get_partial_shape()[_axis(node)].get_length()
    indices = ops.reshape(ops.convert(node.input_value(1), "i64"), ops.constant([-1], ov.Type.i64), False)
    first = ops.constant([0], ov.Type.i64)
    above = ops.subtract(ops.reduce_max(indices, first, True), ops.constant([size - 1], ov.Type.i64))
    below = ops.subtract(ops.constant([-size], ov.Type.i64), ops.reduce_min(indices, first, True))
    return ops.maximum(above, below)
