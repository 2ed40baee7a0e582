"""A network that computes for ever inside one execute is noticed, its requests get an error, and it answers again."""

import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from served import Serving, request, serve

pytestmark = pytest.mark.system

CONFIG = """
backend: "onnxruntime"
max_batch_size: 8
input { name: "turns" data_type: TYPE_INT64 dims: 1 }
output { name: "count" data_type: TYPE_INT64 dims: 1 }
dynamic_batching { }
parameters { key: "trireme.heartbeat" value { string_value: "true" } }
"""
FOR_EVER = 10**15


def counter() -> bytes:
    """count = turns, reached by ones: the largest of the batch decides how long the loop is."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_in"], ["go_out"]),
            helper.make_node("Add", ["count_in", "one"], ["count_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("count_in", TensorProto.INT64, None),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("count_out", TensorProto.INT64, None),
        ],
        [numpy_helper.from_array(np.array(1), "one")],
    )
    nodes = [
        helper.make_node("ReduceMax", ["turns"], ["most"], keepdims=0),
        helper.make_node("Sub", ["turns", "turns"], ["zero"]),
        helper.make_node("Loop", ["most", "", "zero"], ["count"], body=body),
    ]
    tensors = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", 1]) for name in ("turns", "count")]
    graph = helper.make_graph(nodes, "counter", tensors[:1], tensors[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


@pytest.fixture
def counting(tmp_path: Path):
    version = tmp_path / "repository" / "counter" / "1"
    version.mkdir(parents=True)
    (version / "model.onnx").write_bytes(counter())
    (version.parent / "config.pbtxt").write_text(CONFIG)
    with serve(tmp_path, repository=tmp_path / "repository") as running:
        yield running


def count(serving: Serving, turns: int) -> tuple[int, object]:
    given = {"name": "turns", "datatype": "INT64", "shape": [1, 1], "data": [turns]}
    return serving.infer_json("counter", {"inputs": [given]})


def test_it_is_noticed_long_before_the_timeout_and_the_model_answers_again(counting: Serving) -> None:
    assert count(counting, 7)[1]["outputs"][0]["data"] == [7]
    outcomes: list[tuple[int, object]] = []
    asked = threading.Thread(target=lambda: outcomes.append(count(counting, FOR_EVER)), daemon=True)
    begun = time.monotonic()
    asked.start()
    while request(f"http://{counting.health}/ready")[0] == 200:
        assert time.monotonic() - begun < 15, "the loop is not noticed"  # 3 s on a quiet machine; the timeout is 30 s
        time.sleep(0.05)
    asked.join(timeout=15)
    ((status, answer),) = outcomes
    assert status >= 500, answer
    while request(f"http://{counting.health}/ready")[0] != 200:
        assert time.monotonic() - begun < 40, "the model does not come back"
        time.sleep(0.1)
    assert count(counting, 3)[1]["outputs"][0]["data"] == [3]
