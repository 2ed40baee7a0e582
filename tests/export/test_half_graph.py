"""A graph in 16 bits: strongly typed, and in fp32 wherever a number would leave their range."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from trireme_export.half_graph import halve
from trireme_export.runtimes import OnnxRuntime, OpenVino
from trireme_export.value_ranges import ranges_of

from .small_graphs import node, types_of, write_graph

X = np.array([[1.0, -2.0, 3.0, 0.5]], np.float32)
RANDOM = np.random.default_rng(5)


def two_layers(path, first, second=1.0):
    """y = relu(x A) B, with the weights' sizes."""
    nodes = [node("MatMul", ["x", "a"], "h"), node("Relu", ["h"], "r"), node("MatMul", ["r", "b"], "y")]
    write_graph(path, nodes, {"a": first * np.ones((4, 8)), "b": second * RANDOM.standard_normal((8, 2))}, 4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def halved(path, precision, samples=(X,)):
    ranges = ranges_of(path, [{"x": sample} for sample in samples])
    model = ir.load(path)
    report = halve(model, precision, ranges)
    written = path.with_name(f"{precision}.onnx")
    ir.save(model, written)
    onnx.checker.check_model(str(written), full_check=True)  # refuses an operator whose inputs differ in type
    return report, model, written


def test_ranges_are_the_smallest_and_the_largest_number_over_all_samples(path):
    two_layers(path, 1.0)
    ranges = ranges_of(path, [{"x": X}, {"x": -2 * X}])
    assert (ranges["h"].low, ranges["h"].high, ranges["h"].largest) == (-5.0, 2.5, 5.0)
    assert (ranges["r"].low, ranges["r"].high) == (0, 2.5)
    assert list(path.parent.iterdir()) == [path], "nothing is left beside it"


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_weights_are_stored_in_16_bits_and_the_face_stays_fp32(path, precision):
    two_layers(path, 1.0)
    report, model, written = halved(path, precision)
    half = {"fp16": "FLOAT16", "bf16": "BFLOAT16"}[precision]
    assert report.kept == ()
    assert {value.dtype.name for value in model.graph.initializers.values()} == {half}
    assert types_of(model)["h"] == types_of(model)["r"] == half
    assert [value.dtype.name for value in (*model.graph.inputs, *model.graph.outputs)] == ["FLOAT", "FLOAT"]
    assert [value.name for value in model.graph.outputs] == ["y"]
    np.testing.assert_allclose(OpenVino(written).run({"x": X}), OnnxRuntime(path).run({"x": X}), rtol=0.02, atol=0.02)


def test_a_value_beyond_the_range_of_fp16_keeps_its_nodes_in_fp32_and_names_them(path):
    two_layers(path, 20_000.0)  # h is 50,000, half of it is the most for numbers that samples reach
    report, model, written = halved(path, "fp16")
    assert [kept.node for kept in report.kept] == ["h", "y"]
    assert "h (MatMul, up to 1e+05)" in map(str, report.kept), "with the headroom"
    assert types_of(model)["h"] == "FLOAT"
    answer = OnnxRuntime(written).run({"x": X})
    assert np.isfinite(answer).all()
    np.testing.assert_allclose(answer, OnnxRuntime(path).run({"x": X}), rtol=1e-3)


def test_a_weight_beyond_the_range_of_fp16_keeps_its_node_in_fp32(path):
    two_layers(path, 1e-4, second=1e6)
    report, model, _ = halved(path, "fp16")
    assert [kept.node for kept in report.kept] == ["y"]
    assert model.graph.initializers["b"].dtype == ir.DataType.FLOAT


def test_bf16_has_the_range_of_fp32(path):
    two_layers(path, 20_000.0, second=1e6)
    report, _, _ = halved(path, "bf16")
    assert report.kept == ()


def test_infinity_is_in_every_type_and_a_mask_of_it_is_no_overflow(path):
    mask = np.array([0, -np.inf, 0, 0])
    nodes = [node("Gemm", ["x", "t"], "start"), node("Add", ["start", "mask"], "m"), node("Softmax", ["m"], "y")]
    write_graph(path, nodes, {"t": np.eye(4), "mask": mask}, 4)
    report, _, written = halved(path, "fp16")
    assert [kept.node for kept in report.kept] == ["m"], "what samples make infinite is not taken for small"
    np.testing.assert_allclose(OnnxRuntime(written).run({"x": X}), OnnxRuntime(path).run({"x": X}), atol=1e-3)


def test_counting_stays_in_fp32_since_bf16_counts_to_256(path):
    nodes = [
        node("ReduceSum", ["x", "axes"], "count"),
        node("Add", ["count", "one"], "more"),
        node("Mul", ["more", "w"], "y"),
    ]
    graph_weights = {"one": np.float32(1), "w": np.ones((1, 2))}
    write_graph(path, nodes, graph_weights, 4)
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("axes", TensorProto.INT64, [1], [1]))
    onnx.save(model, path)
    _, halved_model, written = halved(path, "bf16", [np.full((1, 4), 75.0, np.float32)])
    assert types_of(halved_model) == {"count": "FLOAT", "more": "FLOAT", "y": "FLOAT"}
    assert OnnxRuntime(written).run({"x": np.full((1, 4), 75.0, np.float32)}).tolist() == [[301, 301]]


def test_sums_over_many_numbers_stay_in_fp32(path):
    nodes = [
        node("Gemm", ["x", "t"], "start"),
        node("LayerNormalization", ["start", "gamma"], "norm"),
        node("MatMul", ["norm", "t"], "h"),
        node("Softmax", ["h"], "y"),
    ]
    write_graph(path, nodes, {"t": np.eye(4), "gamma": np.ones(4)}, 4)
    _, model, _ = halved(path, "fp16")
    types = types_of(model)
    assert (types["start"], types["norm"], types["h"], types["y"]) == ("FLOAT16", "FLOAT", "FLOAT16", "FLOAT")


def test_what_a_precision_has_no_operator_for_stays_in_fp32(path):
    """ONNX has convolutions in bf16 from opset 22 alone."""
    nodes = [node("Unsqueeze", ["x", "axes"], "plane"), node("Conv", ["plane", "w"], "c"), node("Flatten", ["c"], "y")]
    write_graph(path, nodes, {"w": np.ones((2, 1, 2))}, 4)
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("axes", TensorProto.INT64, [1], [1]))
    model = onnx.shape_inference.infer_shapes(model)
    onnx.save(model, path)
    assert halved(path, "bf16")[0].share == 0
