"""What the launcher adds to a config for the machine, and what it leaves alone."""

import json

import pytest
from google.protobuf import json_format
from launching import TEXT_IN, TEXT_OUT, ensemble, parameters
from trireme_server.config_proto import ModelConfig
from trireme_server.machine import Machine
from trireme_server.overrides import override
from tritonclient.grpc import model_config_pb2

CPU = Machine(cores=4, memory_available=2**33, has_gpu=False)
GPU = Machine(cores=4, memory_available=2**33, has_gpu=True)
IDS = {"name": "input_ids", "data_type": "TYPE_INT64", "dims": [-1]}
VECTOR = {"name": "embedding", "data_type": "TYPE_FP32", "dims": [384]}


def config(**changes):
    return ModelConfig(json_format.ParseDict({"name": "m", **changes}, model_config_pb2.ModelConfig()))


def network(**changes):
    return config(
        backend="onnxruntime", max_batch_size=64, input=[IDS], output=[VECTOR], dynamic_batching={}, **changes
    )


def changed(config, machine=CPU, *, is_official=False, artifact_bytes=None):
    result = override(config, machine, is_official=is_official, artifact_bytes=artifact_bytes)
    return None if result is None else json.loads(result.to_json())


def instances(count):
    """Groups of one, of which the first is preferred."""
    return [
        {"count": 1, "kind": "KIND_CPU", "rate_limiter": {"priority": 1 + 1000 * number}} for number in range(count)
    ]


def test_a_stand_in_is_one_process_with_all_cores_that_takes_requests_of_any_shape():
    loaded = changed(network())
    assert loaded["instance_group"] == instances(1)
    assert loaded["parameters"] == parameters(
        **{"trireme.threads": "4", "trireme.streams": "4", "trireme.ragged": "true"}
    )
    assert loaded["input"][0]["allow_ragged_batch"] is True


@pytest.mark.parametrize(
    ("artifact_bytes", "cores", "count", "streams"),
    [(90 * 2**20, 4, 2, "2"), (90 * 2**20, 3, 2, "2"), (90 * 2**20, 1, 1, "1"), (2**30, 4, 1, "4"), (None, 4, 1, "4")],
)
def test_a_small_network_is_served_by_two_processes_that_share_the_cores(artifact_bytes, cores, count, streams):
    machine = Machine(cores=cores, memory_available=2**33, has_gpu=False)
    loaded = changed(network(), machine, artifact_bytes=artifact_bytes)
    assert loaded["instance_group"] == instances(count)
    assert loaded["parameters"]["trireme.streams"] == {"string_value": streams}


@pytest.mark.parametrize("field", ["dynamic_batching", "max_batch_size"])
def test_a_stand_in_that_does_not_batch_is_not_ragged(field):
    document = json.loads(network().to_json())
    del document[field]
    loaded = changed(ModelConfig(json_format.ParseDict(document, model_config_pb2.ModelConfig())))
    assert "allow_ragged_batch" not in loaded["input"][0]
    assert "trireme.ragged" not in loaded["parameters"]


def test_the_openvino_stand_in_gets_one_process_and_no_ragged_inputs():
    document = json.loads(network().to_json()) | {"backend": "openvino"}
    own = ModelConfig(json_format.ParseDict(document, model_config_pb2.ModelConfig()))
    loaded = changed(own, artifact_bytes=2**20)
    assert loaded["instance_group"] == instances(1)
    assert "parameters" not in loaded
    assert "allow_ragged_batch" not in loaded["input"][0]


def test_an_input_of_fixed_shape_is_not_ragged():
    loaded = changed(
        config(backend="onnxruntime", max_batch_size=8, input=[VECTOR], output=[VECTOR], dynamic_batching={})
    )
    assert "allow_ragged_batch" not in loaded["input"][0]


def test_the_official_backend_gets_one_instance_with_all_threads_and_nothing_of_ours():
    loaded = changed(network(), is_official=True)
    assert loaded["instance_group"] == instances(1)
    assert loaded["parameters"] == parameters(intra_op_thread_count="4")
    assert "allow_ragged_batch" not in loaded["input"][0]


def test_the_official_backend_on_a_gpu_is_left_alone():
    assert changed(network(), GPU, is_official=True) is None


def test_what_the_config_says_itself_wins():
    own = network(instance_group=[{"count": 3, "kind": "KIND_CPU"}], parameters=parameters(**{"trireme.threads": "1"}))
    loaded = changed(own)
    assert loaded["instance_group"][0]["count"] == 3
    assert loaded["parameters"]["trireme.threads"] == {"string_value": "1"}


@pytest.mark.parametrize(("stage", "count"), [("image", 4), ("tokenize", 1)])
def test_images_are_decoded_on_every_core_and_texts_in_one_process(stage, count):
    own = config(backend="stages", input=[TEXT_IN], output=[TEXT_OUT], parameters=parameters(stage=stage))
    assert changed(own)["instance_group"] == instances(count)


def test_ensembles_and_other_backends_are_loaded_as_they_are():
    assert changed(config(**ensemble("a", "b"))) is None
    assert changed(config(backend="llm", input=[TEXT_IN], output=[TEXT_OUT])) is None


def test_the_launchers_own_parameter_is_kept_from_the_backend():
    own = config(
        backend="llm", input=[TEXT_IN], output=[TEXT_OUT], parameters=parameters(**{"trireme.stall_timeout_s": "9"})
    )
    assert "trireme.stall_timeout_s" not in changed(own).get("parameters", {})


def test_a_config_is_complete_when_triton_need_not_ask_the_backend():
    assert network().is_complete
    assert config(**ensemble("a", "b")).is_complete
    assert not config(backend="onnxruntime").is_complete
    assert not config(input=[IDS], output=[VECTOR]).is_complete
