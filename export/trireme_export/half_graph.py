"""An fp32 graph with its large operators in 16 bits: weights stored so, casts between, inputs and outputs as before.

Every operator has all its inputs in one type, so a strongly typed reader takes the graph as it is. In fp32 stay the
sums over many numbers (softmax, layer norm, means, pooling), what is computed from no weight (masks, positions: bf16
counts to 256), and what would leave the range of 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir

from trireme_export.value_ranges import Range

Half = Literal["bf16", "fp16"]
MULTIPLYING = frozenset({"MatMul", "Gemm", "Conv"})
# What follows or joins them without adding up many numbers: it is computed, or moved, as it comes.
_ALONG = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Neg", "Relu", "LeakyRelu", "Clip", "Erf", "Tanh", "Sigmoid", "HardSigmoid"),
        *("HardSwish", "Gelu", "MaxPool", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Slice"),
        *("Concat", "Split", "Expand", "Gather", "GatherElements", "Pad", "Identity"),
    }
)
HEADROOM = 2  # samples are not all inputs: half of the largest number that a type holds must be enough for them


@dataclass(frozen=True)
class _Type:
    """A 16-bit type in three libraries."""

    ir: ir.DataType
    numpy: Any
    schema: str
    largest: float


_TYPES: Mapping[Half, _Type] = {
    "fp16": _Type(ir.DataType.FLOAT16, np.float16, "tensor(float16)", 65504.0),
    "bf16": _Type(ir.DataType.BFLOAT16, ml_dtypes.bfloat16, "tensor(bfloat16)", 3.38953139e38),
}


@dataclass(frozen=True)
class Kept:
    """A node that stays in fp32 for the size of a number in it."""

    node: str
    operator: str
    largest: float

    def __str__(self) -> str:
        return f"{self.node} ({self.operator}, up to {self.largest:.3g})"


@dataclass(frozen=True, kw_only=True)
class Halved:
    """What became of a graph."""

    kept: tuple[Kept, ...]
    share: float  # of the weights' numbers, in 16 bits


def halve(model: ir.Model, precision: Half, ranges: Mapping[str, Range]) -> Halved:
    """Rewrite `model` in place; `ranges` are those of its values on samples."""
    kind = _TYPES[precision]
    halved, kept = _choose(model.graph, kind, ranges)
    casts = _Casts(model.graph, kind)
    total = sum(value.const_value.size for value in _weights(model.graph))
    for node in list(model.graph):
        casts.feed(node, half=node in halved)
    casts.restore_outputs()
    remove_unused(model.graph)
    left = sum(value.const_value.size for value in _weights(model.graph))
    return Halved(kept=tuple(kept), share=1 - left / total if total else 0.0)


def is_weight(value: ir.Value | None) -> bool:
    """A trained tensor, or another that is more than one number."""
    return value is not None and value.is_initializer() and value.dtype == ir.DataType.FLOAT and bool(value.shape)


def remove_unused(graph: ir.Graph) -> None:
    """Initializers that nothing reads any more."""
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]


def _weights(graph: ir.Graph) -> list[Any]:
    return [value for value in graph.initializers.values() if is_weight(value)]


def _choose(graph: ir.Graph, kind: _Type, ranges: Mapping[str, Range]) -> tuple[set[ir.Node], list[Kept]]:
    """The nodes that are computed in 16 bits, and those that would have been if their numbers fitted."""
    halved: set[ir.Node] = set()
    kept: list[Kept] = []
    trained: set[ir.Value] = set()  # values that depend on a weight
    for node in graph:
        if any(is_weight(value) or value in trained for value in node.inputs if value is not None):
            trained.update(node.outputs)
        if not _could_be_half(node, halved, trained) or not _is_allowed(node, graph.opset_imports[""], kind):
            continue
        largest = max(_sizes(node, kind, ranges), default=0.0)
        if largest <= 1:
            halved.add(node)
        else:
            kept.append(Kept(node.name or node.outputs[0].name or "?", node.op_type, largest * kind.largest))
    return halved, kept


def _could_be_half(node: ir.Node, halved: set[ir.Node], trained: set[ir.Value]) -> bool:
    """A product with a weight, or of what was computed from weights; or what goes along with one."""
    floats = [value for value in node.inputs if value is not None and value.dtype == ir.DataType.FLOAT]
    if node.op_type in MULTIPLYING:
        return any(map(is_weight, floats)) or all(value in trained for value in floats)
    if node.op_type == "Gather" and is_weight(node.inputs[0]):
        return True
    return node.op_type in _ALONG and any(value.producer() in halved for value in floats)


def _is_allowed(node: ir.Node, opset: int, kind: _Type) -> bool:
    """Whether the operator has such a variant in this opset, for its inputs and its first output alike."""
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    types = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    return kind.schema in types.get(schema.outputs[0].type_str, ())


def _sizes(node: ir.Node, kind: _Type, ranges: Mapping[str, Range]) -> Iterator[float]:
    """The largest numbers in and out of a node, as shares of what may be."""
    for value in (*node.inputs, *node.outputs):
        if value is None or value.dtype != ir.DataType.FLOAT:
            continue
        if value.const_value is not None:
            numbers = value.const_value.numpy()
            yield (
                float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0)) / kind.largest
            )  # infinity is in every type
        elif value.name is not None and value.name in ranges:
            yield ranges[value.name].largest * HEADROOM / kind.largest


class _Casts:
    """Gives every node its inputs in its own type; what is cast once is cast for all."""

    def __init__(self, graph: ir.Graph, kind: _Type) -> None:
        self._graph = graph
        self._kind = kind
        self._made: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

    def feed(self, node: ir.Node, *, half: bool) -> None:
        """Inputs in 16 bits, and outputs; or inputs as they were."""
        wanted = self._kind.ir if half else ir.DataType.FLOAT
        for place, value in enumerate(node.inputs):
            if value is not None and value.dtype in (self._kind.ir, ir.DataType.FLOAT) and value.dtype != wanted:
                node.replace_input_with(place, self._in_type(value, wanted))
        if half:
            for value in node.outputs:
                if value.dtype == ir.DataType.FLOAT:
                    value.dtype = self._kind.ir

    def restore_outputs(self) -> None:
        """The graph's own outputs are fp32 and keep their names."""
        for place, value in enumerate(self._graph.outputs):
            if value.dtype == self._kind.ir:
                name = value.name
                value.name = f"half_{name}"
                restored = self._in_type(value, ir.DataType.FLOAT)
                restored.name = name
                self._graph.outputs[place] = restored

    def _in_type(self, value: ir.Value, wanted: ir.DataType) -> ir.Value:
        if (value, wanted) not in self._made:
            self._made[value, wanted] = self._stored(value) if value.is_initializer() else self._cast(value, wanted)
        return self._made[value, wanted]

    def _stored(self, value: ir.Value) -> ir.Value:
        assert value.const_value is not None, "an initializer has its numbers"
        name = f"{value.name}_half"
        tensor = ir.tensor(value.const_value.numpy().astype(self._kind.numpy), name=name)
        stored = ir.Value(name=name, type=ir.TensorType(self._kind.ir), shape=value.shape, const_value=tensor)
        self._graph.register_initializer(stored)
        return stored

    def _cast(self, value: ir.Value, wanted: ir.DataType) -> ir.Value:
        cast = ir.node("Cast", [value], {"to": wanted}, name=f"cast_{value.name}")
        (given,) = cast.outputs
        given.name, given.dtype, given.shape = f"{value.name}_cast", wanted, value.shape
        producer = value.producer()
        if producer is None:
            self._graph.insert_before(self._graph[0], cast)
        else:
            self._graph.insert_after(producer, cast)
        return given
