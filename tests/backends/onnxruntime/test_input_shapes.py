"""A request whose tensors have other shapes than the config's is refused by itself, in its own words."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_networks import TABLE, config, doubling, lookup, network, tensor, text_config
from trireme_triton.tensors import InvalidRequest

RUNTIMES = ["onnxruntime", "openvino"]


@pytest.fixture(params=RUNTIMES)
def texts(load, text_file, request):
    """The small text encoder, which packs rows."""
    return load(text_file, text_config({"trireme.runtime": request.param, "trireme.threads": "2"}))


def tokens(*shape):
    return {name: np.ones(shape, np.int64) for name in ("input_ids", "attention_mask")}


def rows_of_two():
    return config([tensor("x", "TYPE_FP32", [2])], max_batch_size=8)


def refused_alone(network, good, bad):
    """The refusal of `bad`, which ran between two good requests, whose answers are as without it."""
    alone, *_ = network.answer([good])
    first, refusal, last = network.answer([good, bad, good])
    for answer in (first, last):
        for name, values in answer.items():
            np.testing.assert_allclose(values, alone[name], atol=2e-6)
    assert isinstance(refusal, InvalidRequest)
    assert refusal.reason == "shape"
    return str(refusal)


@pytest.mark.parametrize("shape", [(3,), (), (1, 3, 1)])
def test_texts_of_another_rank_are_refused_with_the_shape_that_is_allowed(texts, shape):
    refusal = refused_alone(texts, tokens(1, 3), tokens(*shape))
    assert refusal == f"input 'input_ids' has shape {list(shape)}; it must be [batch, any]"


@pytest.mark.parametrize("shape", [(2,), (1, 3), (1, 2, 1), ()])
def test_rows_of_another_shape_are_refused_where_rows_are_stacked(load, shape):
    good, bad = {"x": np.ones((1, 2), np.float32)}, {"x": np.ones(shape, np.float32)}
    refusal = refused_alone(load(doubling(), rows_of_two()), good, bad)
    assert refusal == f"input 'x' has shape {list(shape)}; it must be [batch, 2]"


def test_images_without_their_batch_dimension_are_refused(load):
    """Their height would be taken for the number of images."""
    file, parsed = doubling(("n", 6, 6, 3)), config([tensor("x", "TYPE_FP32", [6, 6, 3])])
    parsed["output"] = [tensor("y", "TYPE_FP32", [6, 6, 3])]
    good, bad = {"x": np.ones((1, 6, 6, 3), np.float32)}, {"x": np.ones((6, 6, 3), np.float32)}
    refusal = refused_alone(load(file, parsed), good, bad)
    assert refusal == "input 'x' has shape [6, 6, 3]; it must be [batch, 6, 6, 3]"


def test_without_a_batch_dimension_the_config_says_the_whole_shape(load):
    good, bad = {"x": np.ones(2, np.float32)}, {"x": np.ones((1, 2), np.float32)}
    refusal = refused_alone(load(doubling((2,)), config(max_batch_size=0)), good, bad)
    assert refusal == "input 'x' has shape [1, 2]; it must be [2]"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_inputs_of_different_batches_are_refused(load, runtime):
    pairs = (TensorProto.FLOAT, ("n", 2))
    file = network([helper.make_node("Add", ["a", "b"], ["y"])], {"a": pairs, "b": pairs}, {"y": pairs})
    parsed = config(
        [tensor("a", "TYPE_FP32", [2]), tensor("b", "TYPE_FP32", [2])], parameters={"trireme.runtime": runtime}
    )
    good = {name: np.ones((2, 2), np.float32) for name in ("a", "b")}
    bad = {"a": np.ones((2, 2), np.float32), "b": np.ones((1, 2), np.float32)}
    refusal = refused_alone(load(file, parsed), good, bad)
    assert refusal == "input 'a' has shape [2, 2], 'b' has shape [1, 2]; all must have the same batch dimension"


def test_an_open_dimension_may_be_anything(load):
    parsed = config([tensor("x", "TYPE_INT64", [-1])], [tensor("y", "TYPE_FP32", [-1, 3])])
    for shape in ((1, 1), (3, 5)):
        (answer,) = load(lookup(), parsed).answer([{"x": np.ones(shape, np.int64)}])
        np.testing.assert_array_equal(answer["y"], TABLE[np.ones(shape, np.int64)])
