"""An fp32 graph whose products with weights are in 8 bits: QuantizeLinear and DequantizeLinear around them.

Scales are fixed by samples. One that is measured while serving would let an answer depend on what shares its batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from trireme_export.half_graph import MULTIPLYING, is_weight, remove_unused
from trireme_export.int8_values import (
    Activation,
    ActivationScale,
    activation_scale,
    balance,
    balanced_range,
    mean_error,
    quantize_weight,
)

Array = NDArray[Any]


class _Input(NamedTuple):
    """An activation in 8 bits and back."""

    value: ir.Value
    scale: ActivationScale
    mean: NDArray[np.float32]  # of its channels
    factors: NDArray[np.float32] | None  # that they were divided by


def products(graph: ir.Graph) -> dict[str, list[ir.Node]]:
    """The nodes that multiply with a weight, by the name of the activation that they take."""
    found: dict[str, list[ir.Node]] = {}
    for node in graph:
        if node.op_type in MULTIPLYING and is_weight(node.inputs[1]) and _output_axis(node) is not None:
            activation = node.inputs[0]
            assert activation is not None
            assert activation.name is not None, "every value has a name"
            if not activation.is_initializer():
                found.setdefault(activation.name, []).append(node)
    return found


def channel_axes(graph: ir.Graph) -> dict[str, int]:
    """The activations of which samples must be seen, with the dimension that has the channels."""
    return {name: 1 if nodes[0].op_type == "Conv" else -1 for name, nodes in products(graph).items()}


def quantize(model: ir.Model, activations: Mapping[str, Activation], *, signed: bool) -> int:
    """Rewrite `model` in place; how many nodes multiply in 8 bits.

    Args:
        signed: activations from -127 to 127 about 0, which TensorRT takes; else 0 to 255, which is a bit more.
    """
    writer = _Writer(model.graph)
    found = products(model.graph)
    for name, nodes in found.items():
        quantized = _quantize_input(writer, nodes, activations[name], signed=signed)
        for node in nodes:
            _quantize_product(writer, node, quantized)
    remove_unused(model.graph)
    return sum(map(len, found.values()))


def _quantize_input(writer: _Writer, nodes: Sequence[ir.Node], activation: Activation, *, signed: bool) -> _Input:
    value, (low, high), factors = nodes[0].inputs[0], activation.range, None
    assert value is not None
    if all(node.op_type != "Conv" for node in nodes):
        weights = np.concatenate([_matrix(node) for node in nodes], axis=1)
        factors = balance(activation, weights, signed=signed)
    if factors is not None:
        low, high = balanced_range(activation, factors)
        value = writer.divided(value, factors)
    scale = activation_scale(low, high, signed=signed)
    mean = activation.mean if factors is None else activation.mean / factors
    return _Input(writer.rounded(value, scale), scale, mean, factors)


def _quantize_product(writer: _Writer, node: ir.Node, given: _Input) -> None:
    axis = _output_axis(node)
    assert axis is not None, "only such nodes are among the products"
    weight = _numbers(node.inputs[1])
    if given.factors is not None:
        weight = weight * (given.factors[None, :] if axis == 0 else given.factors[:, None])
    quantized = quantize_weight(weight, axis)
    groups = node.attributes["group"].as_int() if "group" in node.attributes else 1
    _shift(writer, node, mean_error(weight, quantized, axis, given.mean, groups))
    node.replace_input_with(0, given.value)
    weight_name = f"{node.name}_weight"
    node.replace_input_with(1, writer.dequantized(weight_name, quantized.values, quantized.scales, axis, node))
    if node.op_type != "MatMul" and len(node.inputs) > 2 and node.inputs[2] is not None:
        _quantize_bias(writer, node, quantized.scales * given.scale.scale)


def _shift(writer: _Writer, node: ir.Node, error: NDArray[np.float32]) -> None:
    """Add what rounding takes from every output in the mean to the bias: the node's own, or that of the next Add."""
    adds = [node]
    if node.op_type == "MatMul":
        adds = [user for user in node.outputs[0].consumers() if user.op_type == "Add"]
    for place, bias in enumerate(adds[0].inputs if len(adds) == 1 else ()):
        if bias is not None and _is_bias(bias, error):
            shifted = (_numbers(bias) + error).astype(np.float32)
            adds[0].replace_input_with(place, writer.constant(f"{node.name}_shifted_bias", shifted))


def _is_bias(value: ir.Value, error: NDArray[np.float32]) -> bool:
    return value.const_value is not None and tuple(value.const_value.shape) == error.shape


def _quantize_bias(writer: _Writer, node: ir.Node, scales: NDArray[np.float32]) -> None:
    """As the products are summed, in 32 bits with both factors' scales: runtimes only then see a product in 8 bits."""
    bias = node.inputs[2]
    if bias is None or bias.const_value is None or tuple(bias.const_value.shape) != scales.shape:
        return
    steps = np.rint(_numbers(bias).astype(np.float64) / scales)
    if np.abs(steps).max(initial=0) <= np.iinfo(np.int32).max:
        node.replace_input_with(2, writer.dequantized(f"{node.name}_bias", steps.astype(np.int32), scales, 0, node))


def _matrix(node: ir.Node) -> Array:
    """The weight of a matrix product as (channels, outputs)."""
    weight = _numbers(node.inputs[1])
    return weight.T if _output_axis(node) == 0 else weight


def _numbers(value: ir.Value | None) -> Array:
    assert value is not None
    assert value.const_value is not None, "an initializer has its numbers"
    return value.const_value.numpy()


def _output_axis(node: ir.Node) -> int | None:
    """The dimension of the weight that has an index for each output channel; None: it cannot be quantised so."""
    if node.op_type == "Conv":
        return 0
    weight = node.inputs[1]
    if weight is None or weight.shape is None or len(weight.shape) != 2:
        return None
    turned = {name for name in ("transA", "transB") if name in node.attributes and node.attributes[name].value}
    if "transA" in turned:
        return None
    return 0 if turned else 1


class _Writer:
    """Puts nodes and constants into a graph."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph

    def divided(self, value: ir.Value, factors: NDArray[np.float32]) -> ir.Value:
        """Channel by channel, as a multiplication."""
        inverse = self.constant(f"{value.name}_balance", 1 / factors)
        return self._after(value, [ir.node("Mul", [value, inverse], name=f"balance_{value.name}")], "balanced")

    def rounded(self, value: ir.Value, scale: ActivationScale) -> ir.Value:
        """To 8 bits and back."""
        constants = self.constant(f"{value.name}_scale", scale.scale), self.constant(f"{value.name}_zero", scale.zero)
        there = ir.node("QuantizeLinear", [value, *constants], name=f"quantize_{value.name}")
        there.outputs[0].name = f"{value.name}_int8"
        there.outputs[0].dtype = ir.DataType.INT8 if scale.zero.dtype == np.int8 else ir.DataType.UINT8
        there.outputs[0].shape = value.shape
        back = ir.node("DequantizeLinear", [there.outputs[0], *constants], name=f"dequantize_{value.name}")
        return self._after(value, [there, back], "dequantized")

    def dequantized(self, name: str, values: Array, scales: Array, axis: int, before: ir.Node) -> ir.Value:
        """A constant in integers, as the numbers that it stands for."""
        constants = [
            self.constant(name, values),
            self.constant(f"{name}_scale", scales.astype(np.float32)),
            self.constant(f"{name}_zero", np.zeros(scales.shape, values.dtype)),
        ]
        node = ir.node("DequantizeLinear", constants, {"axis": axis}, name=f"dequantize_{name}")
        (given,) = node.outputs
        given.name, given.dtype, given.shape = f"{name}_dequantized", ir.DataType.FLOAT, ir.Shape(values.shape)
        self._graph.insert_before(before, node)
        return given

    def _after(self, value: ir.Value, nodes: Sequence[ir.Node], suffix: str) -> ir.Value:
        """`nodes` right behind what gives `value`; what the last of them gives."""
        (given,) = nodes[-1].outputs
        given.name, given.dtype, given.shape = f"{value.name}_{suffix}", ir.DataType.FLOAT, value.shape
        producer = value.producer()
        if producer is None:
            self._graph.insert_before(self._graph[0], nodes)
        else:
            self._graph.insert_after(producer, nodes)
        return given

    def constant(self, name: str, array: Any) -> ir.Value:
        """An initializer."""
        tensor = ir.tensor(np.asarray(array), name=name)
        shape = ir.Shape(list(np.shape(array)))
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
        self._graph.register_initializer(value)
        return value
