"""A config that loads here loads in the official openvino backend, with its fixed batch."""

import re

import numpy as np
import pytest
from onnx import TensorProto
from small_networks import TABLE, config, doubling, identity, lookup, tensor
from trireme_network.model_config import ConfigRefused
from trireme_triton.parameters import InvalidParameter
from trireme_triton.tensors import InvalidRequest

ROWS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def full(**more):
    """The config of `doubling` with full dims, which is the usable form."""
    return config([tensor("x", "TYPE_FP32", [-1, 2])], [tensor("y", "TYPE_FP32", [-1, 2])], max_batch_size=0, **more)


def refused(load, file, parsed, text, kind="CPU"):
    with pytest.raises((ConfigRefused, InvalidParameter), match=re.escape(text)):
        load(file, parsed, kind)


@pytest.mark.parametrize("name", ["", "model.xml", "model.onnx"])
def test_full_dims_take_any_batch(load, name):
    network = load(doubling(), full(default_model_filename=name))
    answers = network.answer([{"x": ROWS}, {"x": ROWS[:1]}])
    assert [answer["y"].tolist() for answer in answers] == [(2 * ROWS).tolist(), [[2, 4]]]


def test_max_batch_size_fixes_the_batch(load):
    right, wrong = load(doubling(), config(max_batch_size=3)).answer([{"x": ROWS}, {"x": ROWS[:2]}])
    assert right["y"].tolist() == (2 * ROWS).tolist()
    assert isinstance(wrong, InvalidRequest)
    assert "the batch has 2 rows; this model takes exactly 3" in str(wrong)


def test_a_smaller_batch_is_filled_up_if_the_config_says_so(load):
    network = load(doubling(), config(max_batch_size=8, parameters={"ENABLE_BATCH_PADDING": "YES"}))
    (answer,) = network.answer([{"x": ROWS}])
    assert answer["y"].tolist() == (2 * ROWS).tolist()


@pytest.mark.parametrize("pads", ["YES", "NO"])
@pytest.mark.parametrize("shape", [(2,), (8,), (), (8, 3)])
def test_another_shape_is_refused_before_the_batch_is_filled_up(load, pads, shape):
    network = load(doubling(), config(max_batch_size=8, parameters={"ENABLE_BATCH_PADDING": pads}))
    full_batch = {"x": np.ones((8, 2), np.float32)}
    refusal, answer = network.answer([{"x": np.ones(shape, np.float32)}, full_batch])
    assert str(refusal) == f"input 'x' has shape {list(shape)}; it must be [batch, 2]"
    assert answer["y"].tolist() == [[2, 2]] * 8


@pytest.mark.parametrize("kind", ["GPU", "MODEL"])
def test_other_kinds_than_cpu_are_refused(load, kind):
    refused(load, doubling(), full(), "CPUs only", kind)


def test_an_input_that_is_not_listed_is_refused(load):
    refused(load, doubling(), config([], max_batch_size=0), "the config lists 0 inputs; the graph has 1: x")


def test_other_dims_are_refused(load):
    refused(load, doubling(), config([tensor("x", "TYPE_FP32", [-1, 3])], max_batch_size=0), "input 'x' has the shape")
    parsed = config([tensor("x", "TYPE_FP32", [-1, 2])], [tensor("y", "TYPE_FP32", [4, 2])], max_batch_size=0)
    refused(load, doubling(), parsed, "output 'y' has the shape [4, 2]")


def test_a_fixed_first_dimension_is_refused_with_batching(load):
    refused(load, doubling((1, 2)), config(), "first dimension must be dynamic")


@pytest.mark.parametrize("option", [{"optional": True}, {"allow_ragged_batch": True}])
def test_optional_and_ragged_inputs_are_refused(load, option):
    refused(load, doubling(), config([tensor("x", "TYPE_FP32", [2], **option)]), "takes neither")


@pytest.mark.parametrize("name", ["STRING", "DOUBLE", "UINT32"])
def test_types_it_cannot_compute_are_refused(load, tmp_path, name):
    triton_name = {"DOUBLE": "TYPE_FP64"}.get(name, f"TYPE_{name}")
    parsed = config([tensor("x", triton_name, [-1, 2])], [tensor("y", triton_name, [-1, 2])], max_batch_size=0)
    refused(load, identity(TensorProto.DataType.Value(name)), parsed, f"the type {triton_name}")


@pytest.mark.parametrize(
    "parameters",
    [
        {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"},
        {"NUM_STREAMS": "AUTO", "PERFORMANCE_HINT": "LATENCY"},
        {"NUM_STREAMS": "numa", "PERFORMANCE_HINT": "throughput", "HINT_BF16": "YES"},
        {"SKIP_OV_DYNAMIC_BATCHSIZE": "YES", "TARGET_DEVICE": "CPU", "RESHAPE_IO_LAYERS": "no"},
        {"unknown": "ignored"},
    ],
)
def test_every_documented_parameter_is_taken(load, parameters):
    (answer,) = load(doubling(), full(parameters=parameters)).answer([{"x": ROWS}])
    assert answer["y"].tolist() == (2 * ROWS).tolist()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("INFERENCE_NUM_THREADS", "-1"),
        ("COMPILATION_NUM_THREADS", "all"),
        ("COMPILATION_NUM_THREADS", "1"),  # the CPU plugin refuses it, in the official backend too
        ("NUM_STREAMS", "some"),
        ("HINT_BF16", "NO"),
        ("PERFORMANCE_HINT", "FAST"),
        ("TARGET_DEVICE", "GPU"),
        ("CPU_EXTENSION_PATH", "/x.so"),
        ("trireme.ragged", "maybe"),
    ],
)
def test_a_parameter_it_cannot_honour_is_refused(load, key, text):
    refused(load, doubling(), full(parameters={key: text}), key)


def test_inputs_are_reshaped_to_the_config_if_it_says_so(load):
    parsed = config(
        [tensor("x", "TYPE_FP32", [3, 2])],
        [tensor("y", "TYPE_FP32", [3, 2])],
        max_batch_size=0,
        parameters={"RESHAPE_IO_LAYERS": "YES"},
    )
    (answer,) = load(doubling(("n", "m")), parsed).answer([{"x": ROWS}])
    assert answer["y"].tolist() == (2 * ROWS).tolist()


def test_an_index_outside_its_table_is_refused_and_not_answered_with_zeros(load):
    parsed = config([tensor("x", "TYPE_INT64", [-1, -1])], [tensor("y", "TYPE_FP32", [-1, -1, 3])], max_batch_size=0)
    right, wrong = load(lookup(), parsed).answer([{"x": np.array([[9]])}, {"x": np.array([[10]])}])
    np.testing.assert_array_equal(right["y"], TABLE[[[9]]])
    assert isinstance(wrong, InvalidRequest)


def test_a_missing_file_is_refused_by_its_path(load, tmp_path):
    refused(load, doubling(), full(default_model_filename="z.xml"), f"unable to find '{tmp_path / 'z.xml'}'")
