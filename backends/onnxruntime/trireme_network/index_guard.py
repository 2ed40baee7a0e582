"""Makes OpenVINO notice indices outside their table: its CPU Gather gives zeros for them, and the answer looks right.

Covers Gather from a table whose size is known (embeddings: words, positions, types), but for computed indices into
tables of more than 2**24 rows, whose numbers the plugin's fp32 cannot tell apart. Two more nodes in the graph cost far
more than a look at an array: inputs that are indices are looked at before a run, and indices that can only be a
constant's values once. What cannot be looked at keeps the model from loading: GatherND, and either operator in a body
of If or Loop, whose values do not come out. The plugin checks the indices of all other operators by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import openvino as ov  # type: ignore[import-untyped]
from openvino import opset13 as ops
from trireme_triton.tensors import Array, Inputs, Outputs

from trireme_network.model_config import ConfigRefused

_INT32_SIZE = 2**31
_RESHAPES = frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_LOOPS = frozenset({"Loop", "TensorIterator"})
_PICKS = _RESHAPES | {"Broadcast", "GatherElements"}  # whose values are all of their first input


@dataclass(frozen=True)
class Extremes:
    """Two outputs that tell of a lookup's indices."""

    largest: str
    smallest: str
    rows: int  # of the table

    def are_outside(self, outputs: Outputs) -> bool:
        """Whether an index is not in [-rows, rows). There may be no index at all: then the smallest is the larger."""
        largest, smallest = int(outputs[self.largest]), int(outputs[self.smallest])
        if smallest == _INT32_SIZE - 1 and largest == -_INT32_SIZE:
            return False
        return not (-self.rows <= smallest <= largest < self.rows)


@dataclass(frozen=True)
class IndexGuard:
    """What a model's lookups allow. An index may count from the end of its table."""

    input_rows: Mapping[str, int]  # of the smallest table that an input is an index into
    computed: tuple[Extremes, ...]

    def refusal_of_inputs(self, inputs: Inputs) -> str | None:
        """Why the model cannot take these inputs. OpenVINO would cut integers of more than 32 bits."""
        for name, values in inputs.items():
            rows = self.input_rows.get(name)
            outside = _outside(values, _INT32_SIZE if rows is None else rows)
            if outside is not None and rows is None:
                return f"input {name!r} holds {outside}; integers of more than 32 bits cannot be computed"
            if outside is not None:
                return f"input {name!r} holds the index {outside}, which is outside its table of {rows} rows"
        return None

    def refusal_of_outputs(self, outputs: Outputs) -> str | None:
        """Why the outputs are wrong."""
        for extremes in self.computed:
            if extremes.are_outside(outputs):
                return f"a computed index is outside its table of {extremes.rows} rows; is the text too long?"
        return None


def add_index_guard(model: Any) -> IndexGuard:
    """Add the outputs of `Extremes` to a model that has lookups by computed indices.

    Raises:
        ConfigRefused: it has a lookup that cannot be guarded.
    """
    input_rows: dict[str, int] = {}
    computed: list[tuple[Any, int]] = []
    _refuse_what_cannot_be_watched(model)
    for node in filter(_is_lookup, model.get_ordered_ops()):
        indices, rows = node.input_value(1), _table_rows(node).get_length()
        source = _origin(indices, _RESHAPES)
        if source.get_node().get_type_name() == "Parameter":
            input_rows |= {name: min(rows, input_rows.get(name, rows)) for name in source.get_names()}
        elif not _are_constants(_origin(indices, _PICKS).get_node(), rows):
            computed.append((indices, rows))
    extremes = [_add_extremes(model, number, indices, rows) for number, (indices, rows) in enumerate(computed)]
    return IndexGuard(input_rows, tuple(extremes))


def _refuse_what_cannot_be_watched(model: Any, where: str = "") -> None:
    """GatherND: for indices outside the CPU plugin gives whatever lies in memory there, or ends the process.

    `where` says in which bodies this model is; in a body Gather cannot be watched either.
    """
    for node in model.get_ordered_ops():
        kind, name = node.get_type_name(), node.get_friendly_name()
        unsafe = kind == "GatherND" and not _gathers_constant_places(node)
        if unsafe or (where and kind == "Gather" and not _looks_up_constants(node)):
            raise ConfigRefused(
                f"the graph's node {name!r}{where} is a {kind} by computed indices; there OpenVINO does not notice "
                "those outside the table: set trireme.runtime = onnxruntime, or use the official backend"
            )
        for body in _bodies(node):
            _refuse_what_cannot_be_watched(body, f"{where} in a body of the {kind} {name!r}")


def _bodies(node: Any) -> Iterator[Any]:
    kind = node.get_type_name()
    if kind == "If":
        yield from (node.get_function(branch) for branch in range(2))
    elif kind in _LOOPS:
        yield node.get_function()


def _add_extremes(model: Any, number: int, indices: Any, rows: int) -> Extremes:
    axes = ops.constant(list(range(indices.get_partial_shape().rank.get_length())), ov.Type.i64)
    extremes = Extremes(f"trireme_largest_index_{number}", f"trireme_smallest_index_{number}", rows)
    for name, reduction in ((extremes.largest, ops.reduce_max), (extremes.smallest, ops.reduce_min)):
        output = reduction(ops.convert(indices, "i32"), axes).output(0)
        output.get_tensor().set_names({name})
        model.add_outputs([output])
    return extremes


def _outside(values: Array, rows: int) -> int | None:
    """An integer of `values` that is not in [-rows, rows)."""
    if values.dtype.kind not in "iu" or not values.size:
        return None
    if values.view(f"u{values.itemsize}").max() < rows:  # one look at all of them: a negative one would be very large
        return None
    found = [extreme for extreme in (int(values.max()), int(values.min())) if not -rows <= extreme < rows]
    return found[0] if found else None


def _is_lookup(node: Any) -> bool:
    """Whether it is a Gather along an axis of known size."""
    if node.get_type_name() != "Gather" or not _is_constant(node, 2):
        return False
    ranks = [node.input_value(position).get_partial_shape().rank for position in (0, 1)]
    return all(rank.is_static for rank in ranks) and bool(_table_rows(node).is_static)


def _table_rows(node: Any) -> Any:
    axis = int(node.input_value(2).get_node().get_data().item())
    return node.input_value(0).get_partial_shape()[axis]


def _looks_up_constants(gather: Any) -> bool:
    """Whether its indices are constants that are in the table, whatever the inputs are."""
    return _is_lookup(gather) and _are_constants(gather.input_value(1).get_node(), _table_rows(gather).get_length())


def _gathers_constant_places(node: Any) -> bool:
    """The same of a GatherND: an index is one number for each of the dimensions after those of the batch."""
    shape, indices = node.input_value(0).get_partial_shape(), node.input_value(1).get_node()
    if not _is_constant(node, 1) or shape.rank.is_dynamic:
        return False
    values, first = indices.get_data(), int(node.get_attributes()["batch_dims"])
    sizes = [shape[first + place] for place in range(values.shape[-1])]
    columns = zip(sizes, values.reshape(-1, len(sizes)).T, strict=True)
    return all(size.is_static and _are_in_table(column, size.get_length()) for size, column in columns)


def _is_constant(node: Any, position: int) -> bool:
    return bool(node.input_value(position).get_node().get_type_name() == "Constant")


def _origin(value: Any, through: Iterable[str]) -> Any:
    """Where the numbers of `value` come from, unchanged, if only operators of these kinds lie between."""
    while (kind := value.get_node().get_type_name()) in through or (kind == "Convert" and _keeps_integers(value)):
        value = value.get_node().input_value(0)
    return value


def _keeps_integers(converted: Any) -> bool:
    types = (converted.get_element_type(), converted.get_node().input_value(0).get_element_type())
    return all(each in {ov.Type.i32, ov.Type.i64} for each in types)  # the plugin computes both in 32 bits


def _are_constants(node: Any, rows: int) -> bool:
    """Whether it is a constant that holds nothing but rows of the table."""
    if node.get_type_name() != "Constant" or node.get_element_type() not in {ov.Type.i32, ov.Type.i64}:
        return False
    return _are_in_table(node.get_data(), rows)


def _are_in_table(values: Array, rows: int) -> bool:
    return bool(values.size and -rows <= values.min() and values.max() < rows)
