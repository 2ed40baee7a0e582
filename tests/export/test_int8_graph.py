"""Products in 8 bits: what they give by integer arithmetic, on CPUs with and without VNNI alike."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from trireme_export import calibration
from trireme_export.int8_graph import channel_axes, quantize
from trireme_export.int8_values import (
    WEIGHT_LIMIT,
    Activation,
    activation_scale,
    balance,
    mean_error,
    quantize_weight,
)
from trireme_export.runtimes import OnnxRuntime, OpenVino
from trireme_export.value_ranges import MOST_SAMPLES, activations_of

from .small_graphs import node, write_graph

RANDOM = np.random.default_rng(3)


def without_vnni(unsigned, signed):
    """What pmaddubsw and pmaddwd make of a row and a column: pairs of products are added in 16 bits, saturating."""
    products = unsigned.astype(np.int32) * signed.astype(np.int32)
    pairs = products.reshape(-1, 2).sum(axis=1)
    return int(np.clip(pairs, -(2**15), 2**15 - 1).sum())


def test_the_largest_bytes_saturate_with_8_bits_of_weights_and_not_with_7():
    activations = np.full(64, 255, np.uint8)
    for sign in (1, -1):
        full = np.full(64, sign * 127, np.int8)
        assert without_vnni(activations, full) != activations.astype(np.int32) @ full.astype(np.int32)
        ours = quantize_weight(np.full((64, 1), sign * 5.0, np.float32), axis=1).values[:, 0]
        assert abs(int(ours[0])) == WEIGHT_LIMIT
        assert without_vnni(activations, ours) == activations.astype(np.int32) @ ours.astype(np.int32)


@pytest.mark.parametrize("runtime", [OnnxRuntime, OpenVino])
def test_a_product_of_the_largest_numbers_is_that_of_integers(tmp_path, runtime):
    """All activations at their largest, all weights alike: whatever saturates is far off."""
    weight = np.full((64, 4), 5.0, np.float32) * np.array([1, -1, 0.5, -0.25], np.float32)
    x = np.full((3, 64), 10.0, np.float32)
    path = quantized(tmp_path, [node("MatMul", ["x", "w"], "y")], {"w": weight}, 64, x)
    scale = activation_scale(0, 10, signed=False)
    bytes_of_x = np.rint(x / scale.scale).astype(np.int32)
    own = quantize_weight(weight, axis=1)
    expected = (bytes_of_x @ own.values.astype(np.int32)) * scale.scale * own.scales
    np.testing.assert_allclose(runtime(path).run({"x": x}), expected, rtol=1e-5)
    np.testing.assert_allclose(expected, x @ weight, rtol=1e-2)


def quantized(folder, nodes, weights, width, samples, *, signed=False):
    """The file of a small graph in int8, with ranges from `samples`."""
    path = folder / "model.onnx"
    write_graph(path, nodes, weights, width)
    return rewritten(path, samples, signed=signed)


def rewritten(path, samples, *, signed=False):
    model = ir.load(path)
    activations = activations_of(path, channel_axes(model.graph), [{"x": samples}])
    assert quantize(model, activations, signed=signed) > 0
    written = path.with_name("int8.onnx")
    ir.save(model, written)
    onnx.checker.check_model(str(written), full_check=True)
    return written


def test_rows_are_kept_of_samples_from_all_over_and_ranges_of_every_one(tmp_path):
    write_graph(tmp_path / "model.onnx", [node("MatMul", ["x", "a"], "y")], {"a": np.ones((1, 2), np.float32)}, 1)
    numbers = range(5 * MOST_SAMPLES)
    samples = ({"x": np.full((2, 1), number, np.float32)} for number in numbers)
    seen = activations_of(tmp_path / "model.onnx", {"y": -1}, samples)["y"]
    assert (seen.low[0], seen.high[0], seen.mean[0]) == (0, numbers[-1], np.mean(numbers))
    kept = sorted(set(seen.rows[:, 0].astype(int)))
    assert MOST_SAMPLES // 2 <= len(kept) <= MOST_SAMPLES
    assert set(np.diff(kept)) == {8}


@pytest.mark.parametrize("count", [3, calibration.MOST, 3 * calibration.MOST + 7])
def test_calibration_takes_texts_from_all_over_a_file(tmp_path, count):
    lines = [f"text {number}" for number in range(count)]
    (tmp_path / "texts").write_text("\n".join(lines))
    taken = calibration.read_texts([tmp_path / "texts"])
    assert len(taken) == len(set(taken)) == min(count, calibration.MOST)
    assert lines.index(taken[-1]) > count - 5


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("runtime", [OnnxRuntime, OpenVino])
def test_each_kind_of_product_is_near_that_in_fp32(tmp_path, runtime, signed):
    nodes = [
        node("MatMul", ["x", "a"], "product"),
        node("Add", ["product", "bias"], "h"),
        node("Relu", ["h"], "r"),
        node("Gemm", ["r", "b", "c"], "g", transB=1),
        node("Unsqueeze", ["g", "axes"], "plane"),
        node("Conv", ["plane", "k", "kb"], "convolved", group=2),
        node("Flatten", ["convolved"], "y"),
    ]
    shapes = {"a": (16, 32), "bias": (32,), "b": (8, 32), "c": (8,), "k": (4, 4, 1), "kb": (4,)}
    weights = {name: RANDOM.standard_normal(shape) for name, shape in shapes.items()}
    path = tmp_path / "model.onnx"
    write_graph(path, nodes, weights, 16)
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("axes", TensorProto.INT64, [1], [2]))
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    x = RANDOM.standard_normal((200, 16)).astype(np.float32)
    expected = OnnxRuntime(path).run({"x": x})
    actual = runtime(rewritten(path, x, signed=signed)).run({"x": x})
    assert np.abs(actual - expected).max() < 0.05 * np.abs(expected).max()
    assert abs((actual - expected).mean(axis=0)).max() < 0.01 * np.abs(expected).max(), "rounding moves no mean"


def test_a_row_gives_the_same_whatever_shares_its_batch(tmp_path):
    x = RANDOM.standard_normal((64, 16)).astype(np.float32)
    path = quantized(tmp_path, [node("MatMul", ["x", "w"], "y")], {"w": RANDOM.standard_normal((16, 8))}, 16, x)
    runtime = OnnxRuntime(path)
    loud = np.concatenate([x[:1], 100 * x[1:]])
    np.testing.assert_array_equal(runtime.run({"x": loud})[:1], runtime.run({"x": x[:1]}))


@pytest.mark.parametrize(("signed", "types"), [(False, {"UINT8"}), (True, {"INT8"})])
def test_signed_bytes_are_symmetric_as_tensorrt_takes_them(tmp_path, signed, types):
    x = 3 + RANDOM.standard_normal((64, 16)).astype(np.float32)
    weights = {"w": RANDOM.standard_normal((16, 8))}
    path = quantized(tmp_path, [node("MatMul", ["x", "w"], "y")], weights, 16, x, signed=signed)
    model = ir.load(path)
    assert {each.outputs[0].dtype.name for each in model.graph if each.op_type == "QuantizeLinear"} == types
    zeros = [value.const_value.numpy() for name, value in model.graph.initializers.items() if name.endswith("_zero")]
    assert not signed or not any(map(np.any, zeros))


def test_every_output_channel_has_its_own_scale():
    weight = RANDOM.standard_normal((32, 3)).astype(np.float32) * np.array([1, 1e-3, 0], np.float32)
    own = quantize_weight(weight, axis=1)
    assert np.abs(own.values).max(axis=0).tolist() == [WEIGHT_LIMIT, WEIGHT_LIMIT, 0]
    assert (np.abs(own.values * own.scales - weight) <= own.scales / 2 + 1e-9).all()


def test_zero_is_exact_in_every_range():
    for low, high in ((-1.0, 5.0), (2.0, 5.0), (-5.0, -2.0), (0.0, 0.0)):
        for signed in (False, True):
            scale = activation_scale(low, high, signed=signed)
            assert scale.rounded(np.zeros(1))[0] == 0
            ends = np.array([low, high])
            np.testing.assert_allclose(scale.rounded(ends), ends, atol=float(scale.scale))


def test_a_channel_far_larger_than_the_others_does_not_take_their_steps():
    rows = RANDOM.standard_normal((500, 16)).astype(np.float32)
    rows[:, 3] *= 200
    activation = Activation(rows, rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0))
    weight = RANDOM.standard_normal((16, 8)).astype(np.float32)
    weight[3] /= 200
    factors = balance(activation, weight, signed=False)
    assert factors is not None

    def error(divided):
        low, high = (rows / divided).min(), (rows / divided).max()
        own = quantize_weight(weight * divided[:, None], axis=1)
        product = activation_scale(low, high, signed=False).rounded(rows / divided) @ (own.values * own.scales)
        return np.abs(product - rows @ weight).mean()

    assert error(factors) < error(np.ones(16, np.float32)) / 5


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_mean_error_is_what_rounding_does_to_the_mean(groups):
    weight = RANDOM.standard_normal((4, 4 // groups, 3, 3)).astype(np.float32)
    mean = RANDOM.standard_normal(4).astype(np.float32)
    own = quantize_weight(weight, axis=0)
    lost = weight - own.values * own.scales.reshape(4, 1, 1, 1)
    per_group = 4 // groups
    expected = [
        sum(lost[out, channel].sum() * mean[out // per_group * per_group + channel] for channel in range(per_group))
        for out in range(4)
    ]
    np.testing.assert_allclose(mean_error(weight, own, 0, mean, groups), expected, atol=1e-6)
