"""Makes OpenVINO notice indices outside their table: its CPU Gather gives zeros for them, and the answer looks right.

Covers Gather from a table whose size is known (embeddings: words, positions, types); not GatherND or GatherElements,
nor tables of more than 2**24 rows, since the CPU plugin compares integers as fp32.
"""

from __future__ import annotations

from typing import Any

import openvino as ov  # type: ignore[import-untyped]
from openvino import opset13 as ops

OUTSIDE = "trireme_index_outside"  # an extra output, one item per guarded Gather: whether an index is out of range


def add_index_guard(model: Any) -> bool:
    """Add the output OUTSIDE to a model that has lookups by data; says whether it has."""
    found = [_any_outside(node) for node in model.get_ordered_ops() if _is_lookup(node)]
    if not found:
        return False
    together = ops.concat(found, axis=0)
    together.output(0).get_tensor().set_names({OUTSIDE})
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


def _any_outside(node: Any) -> Any:
    """Whether any of a Gather's indices, which may count from the end, is not in [-size, size): boolean, shape [1]."""
    size = node.input_value(0).get_partial_shape()[_axis(node)].get_length()
    indices = ops.reshape(ops.convert(node.input_value(1), "i64"), ops.constant([-1], ov.Type.i64), False)
    above = ops.greater(indices, ops.constant(size - 1, ov.Type.i64))
    below = ops.less(indices, ops.constant(-size, ov.Type.i64))
    return ops.reduce_logical_or(ops.logical_or(above, below), ops.constant([0], ov.Type.i64), True)
