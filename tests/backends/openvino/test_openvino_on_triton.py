"""The openvino stand-in inside the real server."""

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from small_networks import doubling, tensor
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.system

FULL = {"input": [tensor("x", "TYPE_FP32", [-1, 2])], "output": [tensor("y", "TYPE_FP32", [-1, 2])]}
ROWS = {"input": [tensor("x", "TYPE_FP32", [2])], "output": [tensor("y", "TYPE_FP32", [2])], "max_batch_size": 4}


@pytest.fixture(scope="module")
def client(triton, write_model, ir_files, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    for name, parsed in {"full": FULL, "rows": ROWS, "bare": {}}.items():
        write_model(repository, name, {"backend": "openvino", **parsed}, ir_files(doubling()))
    with triton_grpc.InferenceServerClient(triton(repository, auto_complete=True).grpc) as client:
        yield client


def infer(client, model, rows):
    given = triton_grpc.InferInput("x", [rows, 2], "FP32")
    given.set_data_from_numpy(np.ones((rows, 2), np.float32))
    return client.infer(model, [given]).as_numpy("y")


@pytest.mark.parametrize("model", ["full", "bare"])
def test_full_dims_answer_any_batch(client, model):
    for rows in (1, 5):
        assert infer(client, model, rows).tolist() == [[2, 2]] * rows


def test_a_fixed_batch_answers_full_batches_only(client):
    assert infer(client, "rows", 4).tolist() == [[2, 2]] * 4
    with pytest.raises(InferenceServerException, match="takes exactly 4"):
        infer(client, "rows", 3)


def test_a_bare_config_gets_full_dims(client):
    completed = client.get_model_config("bare", as_json=True)["config"]
    assert completed.get("max_batch_size", 0) == 0
    assert completed["input"][0]["dims"] == ["-1", "2"]
