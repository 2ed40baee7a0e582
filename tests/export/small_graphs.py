"""ONNX graphs of a few nodes, for what happens inside a graph."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper


def node(operator: str, inputs: list[str], output: str, **attributes: object) -> onnx.NodeProto:
    """A node with one output, of the same name."""
    return helper.make_node(operator, inputs, [output], name=output, **attributes)


def write_graph(path: Path, nodes: list, weights: dict[str, np.ndarray], width: int) -> None:
    """From x (batch, width) to y; with the types of the values between, as a real export writes them."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", None])],
        [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)


def types_of(model: ir.Model) -> dict[str, str]:
    """By node, the type that its first output has."""
    return {node.name: node.outputs[0].dtype.name for node in model.graph}
