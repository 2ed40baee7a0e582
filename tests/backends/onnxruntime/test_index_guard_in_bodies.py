"""Lookups inside the bodies of If and Loop, which the guard cannot watch."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_networks import TABLE, config, network, tensor
from trireme_network.model_config import ConfigRefused

PARSED = config(
    [tensor("x", "TYPE_FP32", [4]), tensor("places", "TYPE_INT64", [1])],
    [tensor("y", "TYPE_FP32", [1])],
    parameters={"trireme.runtime": "openvino"},
)
LOOKUPS = {
    "Gather": (["table", "places"], {}),
    "GatherND": (["x", "places"], {"batch_dims": 1}),
}


def value(name, tensor_type=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, tensor_type, shape)


def branching(then, otherwise, name="If"):
    """A node that gives `z` by one of two bodies of one node each."""
    bodies = [
        helper.make_graph([node], f"{name} {place}", [], [value(node.output[0], shape=("n",))])
        for place, node in enumerate((then, otherwise))
    ]
    return helper.make_node("If", ["condition"], ["z"], name=name, then_branch=bodies[0], else_branch=bodies[1])


def looping(node):
    """A node that gives the last `z` of a body with this node, run twice."""
    flag = (TensorProto.BOOL, ())
    body = helper.make_graph(
        [node, helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [value("turn", TensorProto.INT64, ()), value("go", *flag), value("before", shape=("n",))],
        [value("on", *flag), value(node.output[0], shape=("n",))],
    )
    return helper.make_node("Loop", ["turns", "condition", "start"], ["z"], name="Loop", body=body)


def file_of(node):
    """y[b] = z[b], [b, 1], of a node that gives z."""
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["condition"]),
        helper.make_node("ReduceSum", ["x", "one"], ["start"], keepdims=0),
        node,
        helper.make_node("Reshape", ["z", "column"], ["y"]),
    ]
    return network(
        nodes,
        {"x": (TensorProto.FLOAT, ("n", 4)), "places": (TensorProto.INT64, ("n", 1))},
        {"y": (TensorProto.FLOAT, ("n", 1))},
        {
            "zero": np.float32(0),
            "one": np.array([1]),
            "table": TABLE[:, 0].copy(),
            "column": np.array([-1, 1]),
            "turns": np.array(2),
            "inside": np.array([9]),
            "outside": np.array([10]),
        },
    )


def looked_up(kind, output="a"):
    inputs, attributes = LOOKUPS[kind]
    return helper.make_node(kind, inputs, [output], name=f"the {kind}", **attributes)


def kept(output="b"):
    return helper.make_node("Identity", ["start"], [output], name="kept")


WHERE = {
    "then": lambda kind: branching(looked_up(kind), kept()),
    "else": lambda kind: branching(kept(), looked_up(kind)),
    "loop": lambda kind: looping(looked_up(kind)),
    "if in a loop": lambda kind: looping(branching(kept(), looked_up(kind), "inner")),
}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", LOOKUPS)
def test_a_lookup_by_computed_indices_in_a_body_keeps_the_model_from_loading(load, kind, where):
    with pytest.raises(ConfigRefused) as caught:
        load(file_of(WHERE[where](kind)), PARSED)
    refusal = str(caught.value)
    assert f"is a {kind} by computed indices" in refusal
    assert "in a body of the" in refusal
    assert "set trireme.runtime = onnxruntime, or use the official backend" in refusal


def test_the_same_lookup_loads_in_onnxruntime_and_its_indices_are_checked(load):
    parsed = {**PARSED, "parameters": {}}
    served = load(file_of(WHERE["then"]("Gather")), parsed)
    x = np.ones((1, 4), np.float32)
    inside, outside = served.answer([{"x": x, "places": np.array([[3]])}, {"x": x, "places": np.array([[10]])}])
    np.testing.assert_array_equal(inside["y"], [[9]])
    assert "the network cannot compute" in str(outside)


@pytest.mark.parametrize(("indices", "loads"), [("inside", True), ("outside", False)])
def test_constant_indices_in_a_body_are_looked_at_once(load, indices, loads):
    constant = helper.make_node("Gather", ["table", indices], ["a"], name="the Gather")
    file = file_of(branching(constant, kept()))
    if loads:
        request = {"x": np.ones((1, 4), np.float32), "places": np.zeros((1, 1), np.int64)}
        (answer,) = load(file, PARSED).answer([request])
        np.testing.assert_array_equal(answer["y"], [[27]])
    else:
        with pytest.raises(ConfigRefused, match="in a body of the If"):
            load(file, PARSED)
