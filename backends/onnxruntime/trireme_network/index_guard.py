"""Makes OpenVINO notice indices outside their table: its CPU Gather gives zeros for them, and the answer looks right.

Covers Gather from a table whose size is known (embeddings: words, positions, types); not GatherND or GatherElements,
nor computed indices into tables of more than 2**24 rows, whose numbers the plugin's fp32 cannot tell apart. A node in
the graph costs far more than a look at an array, so only indices are looked at there that the graph itself computes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import openvino as ov  # type: ignore[import-untyped]
from openvino import opset13 as ops
from trireme_triton.tensors import Array, Inputs, Outputs

_INT32_SIZE = 2**31
_KEEP_VALUES = frozenset(
    ("Broadcast", "Convert", "Gather", "GatherElements", "Reshape", "Slice", "Squeeze", "StridedSlice", "Transpose")
) | {"Unsqueeze"}  # of their first input


@dataclass(frozen=True)
class IndexGuard:
    """What a model's lookups allow. An index may count from the end: it must be in [-size, size)."""

    input_sizes: dict[str, int] = field(default_factory=dict)  # of the smallest table that an input is an index into
    output_sizes: dict[str, int] = field(default_factory=dict)  # of the table whose extreme index an output is

    def refusal_of_inputs(self, inputs: Inputs) -> str | None:
        """Why the model cannot take these inputs. OpenVINO would cut integers of more than 32 bits."""
        for name, values in inputs.items():
            if values.dtype.kind in "iu" and (refusal := self._refusal(name, values)):
                return refusal
        return None

    def _refusal(self, name: str, values: Array) -> str | None:
        size = self.input_sizes.get(name, _INT32_SIZE)
        if not values.size or values.view(f"u{values.itemsize}").max() < size:  # negative ones would be very large
            return None
        outside = values[(values >= size) | (values < -size)]
        if not outside.size:
            return None
        if size == _INT32_SIZE:
            return f"input {name!r} holds {outside[0]}; integers of more than 32 bits cannot be computed"
        return f"input {name!r} holds the index {outside[0]}, which is outside its table of {size} rows"

    def refusal_of_outputs(self, outputs: Outputs) -> str | None:
        """Why the outputs are wrong. The plugin takes extremes as fp32: the largest integers turn negative."""
        for name, size in self.output_sizes.items():
            if not -size <= (index := int(outputs[name])) < size:
                return f"a computed index (a place in a text that is too long?) is {index}; its table has {size} rows"
        return None


def add_index_guard(model: Any) -> IndexGuard:
    """Two more outputs for every lookup by computed indices, the largest and the smallest of them."""
    guard = IndexGuard()
    for node in model.get_ordered_ops():
        if not _is_lookup(node):
            continue
        indices, size = node.input_value(1), int(_table_rows(node).get_length())
        if indices.get_node().get_type_name() == "Parameter":
            for name in indices.get_names():
                guard.input_sizes[name] = min(size, guard.input_sizes.get(name, size))
        elif not _is_picked_from_constant(indices, size):
            _add_extremes(model, indices, size, guard.output_sizes)
    return guard


def _add_extremes(model: Any, indices: Any, size: int, sizes: dict[str, int]) -> None:
    every_axis = ops.constant(list(range(indices.get_partial_shape().rank.get_length())), ov.Type.i64)
    for extreme in (ops.reduce_max(indices, every_axis), ops.reduce_min(indices, every_axis)):
        name = f"trireme_index_extreme_{len(sizes)}"
        extreme.output(0).get_tensor().set_names({name})
        model.add_outputs([extreme.output(0)])
        sizes[name] = size


def _is_lookup(node: Any) -> bool:
    """Whether it is a Gather by computed indices along an axis of known size."""
    if node.get_type_name() != "Gather" or not _is_constant(node, 2) or _is_constant(node, 1):
        return False
    return bool(_table_rows(node).is_static)


def _table_rows(node: Any) -> Any:
    axis = int(node.input_value(2).get_node().get_data().item())
    return node.input_value(0).get_partial_shape()[axis]


def _is_constant(node: Any, position: int) -> bool:
    return bool(node.input_value(position).get_node().get_type_name() == "Constant")


def _is_picked_from_constant(indices: Any, size: int) -> bool:
    """Whether all that the indices can be are a constant's values, and those are in the table."""
    node = indices.get_node()
    while node.get_type_name() in _KEEP_VALUES:
        node = node.input_value(0).get_node()
    if node.get_type_name() != "Constant":
        return False
    values = node.get_data()
    return bool(values.size and -size <= values.min() and values.max() < size)
