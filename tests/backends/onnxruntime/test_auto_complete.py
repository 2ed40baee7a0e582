"""What a config leaves out is filled in as the official backends do."""

import pytest
from small_networks import config, doubling, lookup, tensor
from trireme_network import load_for_onnxruntime, load_for_openvino
from trireme_network.auto_complete import Completion
from trireme_network.model_config import ConfigRefused, read_model_config

X, Y = tensor("x", "TYPE_INT64", [-1]), tensor("y", "TYPE_FP32", [-1, 3])


@pytest.fixture
def complete(tmp_path):
    """`complete(file, inputs, outputs, max_batch_size)` as the onnxruntime backend does it."""

    def of(file, inputs=(), outputs=(), max_batch_size=0, how=load_for_onnxruntime):
        (tmp_path / "model.onnx").write_bytes(file)
        parsed = config(inputs, outputs, max_batch_size=max_batch_size, default_model_filename="model.onnx")
        return how.complete(read_model_config(parsed), tmp_path)

    return of


def test_inputs_and_outputs_come_from_the_graph_and_the_batch_size_is_4(complete):
    assert complete(lookup()) == Completion(max_batch_size=4, inputs=[X], outputs=[Y])


def test_a_batch_size_that_is_given_stays(complete):
    assert complete(lookup(), max_batch_size=32).max_batch_size == 32


def test_only_what_is_missing_is_filled_in(complete):
    assert complete(lookup(), [X]) == Completion(max_batch_size=4, inputs=[], outputs=[Y])


def test_a_complete_config_is_left_alone_and_the_file_not_read(complete):
    assert complete(b"", [X], [Y]) is None


def test_a_graph_with_a_fixed_first_dimension_gets_no_batch_size(complete):
    completion = complete(doubling((1, 2)))
    assert completion.max_batch_size == 0
    assert completion.inputs == [tensor("x", "TYPE_FP32", [1, 2])]


def test_a_batch_size_for_a_graph_that_cannot_be_batched_is_refused(complete):
    with pytest.raises(ConfigRefused, match=r"max_batch_size is 4, but .* has shape .*set max_batch_size: 0"):
        complete(doubling((1, 2)), max_batch_size=4)


def test_openvino_leaves_the_batch_size_alone(complete):
    completion = complete(lookup(), how=load_for_openvino)
    assert completion.max_batch_size == 0
    assert completion.inputs == [tensor("x", "TYPE_INT64", [-1, -1])]
