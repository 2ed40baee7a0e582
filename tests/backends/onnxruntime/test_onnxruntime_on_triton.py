"""The stand-in inside the real server: what Triton hands over, and what clients see of refusals."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto
from small_networks import config, doubling, identity, tensor, text_config
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.system

SERVED = ("onnxruntime", "openvino")  # the runtimes; each serves a model of its name
REFUSED = {
    "kind_gpu": ({"instance_group": [{"kind": "KIND_GPU"}]}, "GPU"),
    "wrong_dims": ({"output": [tensor("y", "TYPE_FP32", [3])]}, "output 'y' has the shape [-1, 3]"),
    "ragged": ({"input": [tensor("x", "TYPE_FP32", [2], allow_ragged_batch=True)]}, "allows ragged batches"),
    "accelerated": (
        {"optimization": {"execution_accelerators": {"cpu_execution_accelerator": [{"name": "openvino"}]}}},
        "unknown CPU execution accelerator 'openvino'",
    ),
    "mistyped": ({"parameters": {"intra_op_thread_count": {"string_value": "many"}}}, "it must be an integer"),
}


def in_triton(parsed, **more):
    """A config for `write_model`, served by the stand-in."""
    unnamed = {key: value for key, value in parsed.items() if key != "name"}
    return {**unnamed, "backend": "onnxruntime", "instance_group": [{"count": 1, "kind": "KIND_CPU"}], **more}


def ragged(parsed):
    for item in parsed["input"]:
        item["allow_ragged_batch"] = True
    return parsed


@pytest.fixture(scope="module")
def server(triton, write_model, text_file, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    for runtime in SERVED:
        parameters = {"trireme.runtime": runtime, "trireme.ragged": "true", "trireme.threads": "2"}
        parsed = in_triton(ragged(text_config(parameters)), dynamic_batching={})
        write_model(repository, runtime, parsed, {"model.onnx": text_file.read_bytes()})
    strings = config([tensor("x", "TYPE_STRING", [1])], [tensor("y", "TYPE_STRING", [1])])
    write_model(repository, "strings", in_triton(strings), {"model.onnx": identity(TensorProto.STRING, ("n", 1))})
    for name, (change, _) in REFUSED.items():
        write_model(repository, name, {**in_triton(config()), **change}, {"model.onnx": doubling()})
    return triton(repository, models=(*SERVED, "strings"))


@pytest.fixture(scope="module")
def client(server):
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        yield client


def infer(client, model, ids):
    inputs = []
    for name, values in (("input_ids", ids), ("attention_mask", np.ones_like(ids))):
        inputs.append(triton_grpc.InferInput(name, ids.shape, "INT64"))
        inputs[-1].set_data_from_numpy(values)
    return client.infer(model, inputs, client_timeout=60).as_numpy("vectors")


@pytest.mark.parametrize("model", SERVED)
def test_texts_of_mixed_lengths_at_once_get_their_own_vectors(client, reference, model):
    random = np.random.default_rng(1)
    texts = [random.integers(1, 100, (1, length)) for length in random.integers(1, 150, 80)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda ids: infer(client, model, ids), texts))
    for ids, vectors in zip(texts, answers, strict=True):
        np.testing.assert_allclose(vectors[0, 0], reference(ids[0]), atol=1e-5)
    statistics = client.get_inference_statistics(model, as_json=True)["model_stats"][0]
    assert int(statistics["execution_count"]) < int(statistics["inference_count"])


@pytest.mark.parametrize("model", SERVED)
def test_a_bad_id_is_the_callers_fault_and_harms_nobody(client, model):
    texts = [np.full((1, 5), 100 if place % 4 == 0 else 7) for place in range(32)]

    def outcome(ids):
        try:
            return infer(client, model, ids)
        except InferenceServerException as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(outcome, texts))
    for place, answer in enumerate(outcomes):
        if place % 4 == 0:
            assert answer.status() == "StatusCode.INVALID_ARGUMENT"
            assert "the network cannot compute inputs" in answer.message()
        else:
            assert answer.shape == (1, 1, 16)


@pytest.mark.parametrize("model", SERVED)
@pytest.mark.parametrize("rows", [-(2**63), 2**32])
def test_a_batch_that_triton_cuts_to_nothing_fails_its_own_request_only(server, client, model, rows):
    """Triton keeps 32 bits of it, takes the request for one without a batch and hands over tensors of one rank less."""
    request = service_pb2.ModelInferRequest(model_name=model)
    for name in ("input_ids", "attention_mask"):
        request.inputs.add(name=name, datatype="INT64", shape=[rows, 3])
        request.raw_input_contents.append(np.ones(3, np.int64).tobytes())

    def refusal():
        with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
            service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=60)
        return caught.value

    with ThreadPoolExecutor(16) as pool:
        refusals = [pool.submit(refusal) for _ in range(40)]
        answers = [pool.submit(infer, client, model, np.full((1, 5), 7)) for _ in range(40)]
        assert all(answer.result().shape == (1, 1, 16) for answer in answers)
    for each in refusals:
        assert each.result().code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "has shape [3]; it must be [batch, any]" in each.result().details()


def test_strings_survive_the_way_through_triton(server):
    texts = [b"", b"a\0b", b"trailing\0", "😀 文字".encode(), b"x" * 100_000]
    tensor_in = triton_http.InferInput("x", [len(texts), 1], "BYTES")
    tensor_in.set_data_from_numpy(np.array(texts, dtype=np.object_)[:, None])
    with triton_http.InferenceServerClient(server.http) as client:
        assert client.infer("strings", [tensor_in]).as_numpy("y")[:, 0].tolist() == texts


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_official_backend_refuses_does_not_load(client, name):
    with pytest.raises(InferenceServerException) as caught:
        client.load_model(name)
    assert REFUSED[name][1] in caught.value.message()


def test_the_phases_of_the_start_are_on_metrics(server):
    lines = server.metric_lines("trireme_cold_start_seconds{")
    for phase in ("process", "imports", "read", "compile", "warmup"):
        assert any('model="openvino"' in line and f'phase="{phase}"' in line for line in lines)


def test_refusals_are_counted(server, client):
    with pytest.raises(InferenceServerException):
        infer(client, "onnxruntime", np.full((1, 5), 100))
    lines = [line for line in server.metric_lines("trireme_stage_errors_total{") if 'reason="network"' in line]
    (line,) = [line for line in lines if 'model="onnxruntime"' in line]
    assert float(line.split()[-1]) >= 1


def test_a_config_that_names_the_backend_only_is_completed(triton, write_model, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    write_model(repository, "bare", {"backend": "onnxruntime"}, {"model.onnx": doubling()})
    server = triton(repository, auto_complete=True)
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        completed = client.get_model_config("bare", as_json=True)["config"]
        assert completed["max_batch_size"] == 4
        assert "dynamic_batching" in completed
        given = triton_grpc.InferInput("x", [3, 2], "FP32")
        given.set_data_from_numpy(np.ones((3, 2), np.float32))
        assert client.infer("bare", [given]).as_numpy("y").tolist() == [[2, 2]] * 3
