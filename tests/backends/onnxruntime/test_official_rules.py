"""A config that loads here loads in the official onnxruntime backend: one test per thing it refuses or ignores."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_networks import config, doubling, identity, lookup, network, tensor, with_default
from trireme_network.model_config import ConfigRefused
from trireme_triton.parameters import InvalidParameter


def refused(load, file, parsed, text, kind="CPU"):
    with pytest.raises((ConfigRefused, InvalidParameter), match=re.escape(text)):
        load(file, parsed, kind)


def test_a_config_that_fits_is_loaded_and_answers(load):
    (answer,) = load(doubling(), config()).answer([{"x": np.array([[1, 2]], np.float32)}])
    assert answer["y"].tolist() == [[2, 4]]


def test_output_dims_that_differ_from_the_graphs_are_refused(load):
    refused(load, doubling(), config(outputs=[tensor("y", "TYPE_FP32", [3])]), "[-1, 3] in the config")


def test_an_output_dim_that_the_graph_leaves_open_cannot_be_fixed_by_the_config(load):
    parsed = config([tensor("x", "TYPE_FP32", [-1])], [tensor("y", "TYPE_FP32", [2])])
    refused(load, doubling(("n", "width")), parsed, "[-1, -1] in the graph")


def test_an_input_dim_that_the_graph_leaves_open_can_be_fixed_by_the_config(load):
    load(doubling(("n", "width")), config([tensor("x", "TYPE_FP32", [2])], [tensor("y", "TYPE_FP32", [-1])]))


def test_input_dims_that_differ_from_the_graphs_are_refused(load):
    refused(load, doubling(), config([tensor("x", "TYPE_FP32", [5])]), "input 'x' has the shape [-1, 5]")


def test_another_number_of_dims_is_refused(load):
    refused(load, doubling(), config([tensor("x", "TYPE_FP32", [2, 1])]), "[-1, 2, 1]")


def test_an_input_of_the_graph_that_the_config_does_not_list_is_refused(load):
    file = network(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        dict.fromkeys("ab", (TensorProto.FLOAT, ("n", 2))),
        {"y": (TensorProto.FLOAT, ("n", 2))},
    )
    refused(load, file, config([tensor("a", "TYPE_FP32", [2])]), "the graph has 2: a, b")


def test_an_input_the_graph_does_not_have_is_refused(load):
    refused(load, doubling(), config([tensor("z", "TYPE_FP32", [2])]), "unexpected input 'z'; the graph has x")


def test_an_output_the_graph_does_not_have_is_refused(load):
    refused(load, doubling(), config(outputs=[tensor("z", "TYPE_FP32", [2])]), "unexpected output 'z'; the graph has y")


def test_an_output_of_the_graph_may_be_left_out(load):
    nodes = [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("Mul", ["x", "x"], ["square"])]
    floats = (TensorProto.FLOAT, ("n", 2))
    file = network(nodes, {"x": floats}, {"y": floats, "square": floats})
    (answer,) = load(file, config()).answer([{"x": np.ones((1, 2), np.float32)}])
    assert list(answer) == ["y"]


def test_an_optional_input_is_refused_where_there_is_a_batch_dimension(load):
    refused(load, doubling(), config([tensor("x", "TYPE_FP32", [2], optional=True)]), "the config lists 0 inputs")
    file = network(
        [helper.make_node("Add", ["x", "bias"], ["y"])],
        {"x": (TensorProto.FLOAT, ("n", 2)), "bias": (TensorProto.FLOAT, ("m", 2))},
        {"y": (TensorProto.FLOAT, ("n", 2))},
        {"bias": np.zeros((1, 2), np.float32)},
    )
    inputs = [tensor("x", "TYPE_FP32", [2]), tensor("bias", "TYPE_FP32", [2], optional=True)]
    refused(load, file, config(inputs), "'bias' is optional, which a model with a batch dimension cannot have")


def test_an_optional_input_without_a_batch_dimension_is_a_default_that_requests_may_replace(load):
    inputs = [tensor("x", "TYPE_FP32", [2]), tensor("bias", "TYPE_FP32", [2], optional=True)]
    loaded = load(with_default(), config(inputs, max_batch_size=0))
    x = np.ones(2, np.float32)
    without, given = loaded.answer([{"x": x}, {"x": x, "bias": np.zeros(2, np.float32)}])
    assert (without["y"].tolist(), given["y"].tolist()) == ([11, 11], [1, 1])


@pytest.mark.parametrize("data_type", ["TYPE_INT64", "TYPE_FP16", "TYPE_FP64", "TYPE_STRING", "TYPE_BF16"])
def test_another_data_type_than_the_graphs_is_refused(load, data_type):
    refused(load, doubling(), config([tensor("x", data_type, [2])]), f"the type {data_type} in the config")
    refused(load, doubling(), config(outputs=[tensor("y", data_type, [2])]), f"the type {data_type} in the config")


def test_bf16_tensors_are_refused_since_release_24_10_does_not_have_them(load):
    parsed = config([tensor("x", "TYPE_BF16", [2])], [tensor("y", "TYPE_BF16", [2])])
    refused(load, identity(TensorProto.BFLOAT16), parsed, "TYPE_BF16 is not supported")


@pytest.mark.parametrize("first", [1, 4])
def test_a_fixed_batch_dimension_is_refused_with_batching(load, first):
    refused(load, doubling((first, 2)), config(), "the graph's first dimension must be dynamic")


def test_a_fixed_batch_dimension_is_an_ordinary_dimension_without_batching(load):
    parsed = config([tensor("x", "TYPE_FP32", [1, 2])], [tensor("y", "TYPE_FP32", [1, 2])], max_batch_size=0)
    (answer,) = load(doubling((1, 2)), parsed).answer([{"x": np.ones((1, 2), np.float32)}])
    assert answer["y"].tolist() == [[2, 2]]


def test_kind_gpu_is_refused(load):
    refused(load, doubling(), config(), "CPUs only", kind="GPU")


def test_a_ragged_input_of_shape_batch_and_length_is_refused(load):
    parsed = config([tensor("x", "TYPE_INT64", [-1], allow_ragged_batch=True)], [tensor("y", "TYPE_FP32", [-1, 3])])
    refused(load, lookup(), parsed, "need a graph input of shape [-1]; the graph has [-1, -1]")


def test_our_own_parameter_lets_requests_of_any_shape_come_together(load):
    parsed = config(
        [tensor("x", "TYPE_INT64", [-1], allow_ragged_batch=True)],
        [tensor("y", "TYPE_FP32", [-1, 3])],
        parameters={"trireme.ragged": "true"},
    )
    answers = load(lookup(), parsed).answer([{"x": np.zeros((1, length), np.int64)} for length in (1, 4, 2)])
    assert [answer["y"].shape for answer in answers] == [(1, 1, 3), (1, 4, 3), (1, 2, 3)]


@pytest.mark.parametrize("name", ["openvino", "tensorrt", "fastest"])
def test_a_cpu_accelerator_is_refused_since_a_build_may_lack_it(load, name):
    optimization = {"execution_accelerators": {"cpu_execution_accelerator": [{"name": name}]}}
    refused(load, doubling(), config(optimization=optimization), f"unknown CPU execution accelerator {name!r}")


@pytest.mark.parametrize("name", ["cuda", "tensorrt", "fastest"])
def test_a_gpu_accelerator_is_ignored(load, name):
    optimization = {"execution_accelerators": {"gpu_execution_accelerator": [{"name": name}]}}
    load(doubling(), config(optimization=optimization))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("intra_op_thread_count", "many"),
        ("inter_op_thread_count", "1.5"),
        ("execution_mode", "2"),
        ("execution_mode", "parallel"),
        ("enable_mem_arena", "maybe"),
        ("enable_mem_pattern", ""),
        ("trireme.runtime", "tensorrt"),
        ("trireme.precision", "int8"),
        ("trireme.threads", "0"),
        ("trireme.streams", "-1"),
        ("trireme.ragged", "yes"),
    ],
)
def test_an_ill_typed_parameter_is_refused(load, key, text):
    refused(load, doubling(), config(parameters={key: text}), f"parameter {key!r} is {text!r}")


def test_an_unknown_parameter_is_ignored_unless_it_claims_to_be_ours(load):
    load(doubling(), config(parameters={"colour": "red", "cudnn_conv_algo_search": "7"}))
    refused(load, doubling(), config(parameters={"trireme.thread": "2"}), "known are trireme.generation")


@pytest.mark.parametrize(
    "parameters",
    [
        {"intra_op_thread_count": "0", "inter_op_thread_count": "2", "execution_mode": "1"},
        {"intra_op_thread_count": "2", "enable_mem_arena": "0", "enable_mem_pattern": "OFF"},
        {"enable_mem_arena": "1", "memory.enable_memory_arena_shrinkage": "cpu:0"},
        {"session.use_device_allocator_for_initializers": "1"},
    ],
)
def test_every_documented_parameter_is_taken(load, parameters):
    (answer,) = load(doubling(), config(parameters=parameters)).answer([{"x": np.ones((1, 2), np.float32)}])
    assert answer["y"].tolist() == [[2, 2]]


@pytest.mark.parametrize("level", [-1, 0, 1, 2, 7])
def test_every_graph_level_is_taken(load, level):
    load(doubling(), config(optimization={"graph": {"level": level}}))


@pytest.mark.parametrize("part", ["sequence_batching", "batch_input", "batch_output", "model_operations"])
def test_what_no_python_backend_can_do_is_refused(load, part):
    refused(load, doubling(), config(**{part: [{"name": "z"}] if part.startswith("batch") else {"x": 1}}), part)


def test_the_dims_of_a_reshape_are_those_that_count(load):
    load(doubling(), config([tensor("x", "TYPE_FP32", [1, 2], reshape={"shape": [2]})]))


def test_a_missing_file_is_refused_by_its_path(load, tmp_path):
    refused(
        load, doubling(), config(default_model_filename="other.onnx"), f"unable to find '{tmp_path / 'other.onnx'}'"
    )


def test_the_default_model_filename_is_honoured_and_may_be_a_folder(load, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.onnx").write_bytes(doubling(operator="Mul"))
    loaded = load(doubling(), config(default_model_filename="other"))
    (answer,) = loaded.answer([{"x": np.full((1, 2), 3, np.float32)}])
    assert answer["y"].tolist() == [[9, 9]]


def test_a_file_that_is_no_model_is_refused(load):
    refused(load, b"not a model", config(), "model.onnx")


@pytest.mark.parametrize(("segments", "text"), [("mask", "which is no input"), ("x", "needs inputs [batch, length]")])
def test_rows_are_packed_only_where_inputs_are_rows_of_tokens(load, segments, text):
    refused(load, doubling(), config(parameters={"trireme.segments": segments}), text)


def test_rows_are_packed_only_where_outputs_are_rows_of_segments(load):
    file = network(
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        {"x": (TensorProto.INT64, ("n", "l"))},
        {"y": (TensorProto.FLOAT, ("n", 2, 3))},
        {"table": np.zeros((10, 3), np.float32)},
    )
    parsed = config(
        [tensor("x", "TYPE_INT64", [-1])], [tensor("y", "TYPE_FP32", [2, 3])], parameters={"trireme.segments": "x"}
    )
    refused(load, file, parsed, "needs outputs [batch, segments, ...]")
