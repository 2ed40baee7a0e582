"""Networks of a few operators as ONNX files, and model configs for them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | str]  # a string is a dimension of any size
TEXT_WIDTH = 16  # of the vectors of the small text encoder
TABLE = np.arange(30, dtype=np.float32).reshape(10, 3)


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Shape]],
    outputs: Mapping[str, tuple[int, Shape]],
    constants: Mapping[str, np.ndarray] = {},
) -> bytes:
    """An ONNX file. A constant whose name is an input's is that input's default."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, *tensor) for name, tensor in inputs.items()],
        [helper.make_tensor_value_info(name, *tensor) for name, tensor in outputs.items()],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def doubling(
    shape: Shape = ("n", 2), out: Shape | None = None, tensor_type: int = TensorProto.FLOAT, operator: str = "Add"
) -> bytes:
    """y = x + x."""
    return network(
        [helper.make_node(operator, ["x", "x"], ["y"])], {"x": (tensor_type, shape)}, {"y": (tensor_type, out or shape)}
    )


def identity(tensor_type: int, shape: Shape = ("n", 2)) -> bytes:
    """y = x."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return network([node], {"x": (tensor_type, shape)}, {"y": (tensor_type, shape)})


def lookup() -> bytes:
    """y[b, l] = TABLE[x[b, l]], which has ten rows of three."""
    return network(
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        {"x": (TensorProto.INT64, ("n", "l"))},
        {"y": (TensorProto.FLOAT, ("n", "l", 3))},
        {"table": TABLE},
    )


def with_default() -> bytes:
    """y = x + bias, without a batch dimension; `bias` may be left out and is then 10."""
    return network(
        [helper.make_node("Add", ["x", "bias"], ["y"])],
        {"x": (TensorProto.FLOAT, (2,)), "bias": (TensorProto.FLOAT, (2,))},
        {"y": (TensorProto.FLOAT, (2,))},
        {"bias": np.full(2, 10, np.float32)},
    )


def tensor(name: str, data_type: str, dims: Sequence[int], **more: object) -> dict[str, Any]:
    """An input or output of a config."""
    return {"name": name, "data_type": data_type, "dims": list(dims), **more}


def config(
    inputs: Sequence[dict[str, Any]] | None = None,
    outputs: Sequence[dict[str, Any]] | None = None,
    *,
    max_batch_size: int = 8,
    parameters: Mapping[str, str] = {},
    **more: object,
) -> dict[str, Any]:
    """A parsed model config; by default the one that fits `doubling`."""
    return {
        "name": "small",
        "max_batch_size": max_batch_size,
        "input": list(inputs) if inputs is not None else [tensor("x", "TYPE_FP32", [2])],
        "output": list(outputs) if outputs is not None else [tensor("y", "TYPE_FP32", [2])],
        "parameters": {key: {"string_value": text} for key, text in parameters.items()},
        **more,
    }


def text_config(parameters: Mapping[str, str] = {}, **more: object) -> dict[str, Any]:
    """The config of the small text encoder, with packed rows."""
    return config(
        [tensor("input_ids", "TYPE_INT64", [-1]), tensor("attention_mask", "TYPE_INT64", [-1])],
        [tensor("vectors", "TYPE_FP32", [-1, TEXT_WIDTH])],
        max_batch_size=64,
        parameters={"trireme.segments": "attention_mask", **parameters},
        **more,
    )
