"""Entries written as OpenVINO IR, served by a real server through the backend of that name."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from served import Refused, over_grpc, over_http, serve
from transformers import pipeline
from tritonclient.grpc import model_config_pb2

from .conftest import run
from .tiny_image_models import write_tiny_image_classifier
from .tiny_models import write_tiny_classifier

pytestmark = pytest.mark.system

TEXTS = ("the three banks of oars moved as one", "rowing at dawn", "", "An ancient row: [PAD] [MASK] 三段櫂船 🚣")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openvino")
    write_tiny_classifier(folder / "texts", "bert")
    write_tiny_image_classifier(folder / "images", "vit")
    run(folder / "texts", "--repository", folder / "repository", "--to", "openvino")
    run(folder / "images", "--repository", folder / "repository", "--to", "openvino", "--precision", "int8")
    return folder / "repository"


def test_golden_samples_are_answered_and_answers_are_the_librarys(repository, tmp_path):
    checkpoint = repository.parent / "texts"
    classify = pipeline("text-classification", model=str(checkpoint), top_k=None)
    with serve(tmp_path, repository=repository) as serving:
        for ask in (over_http, over_grpc):
            answer = ask(serving, "texts", "text", [text.encode() for text in TEXTS])
            for index, text in enumerate(TEXTS):
                best = classify([text])[0][0]
                assert answer["label"][index, 0].decode() == best["label"]
                assert answer["score"][index, 0] == pytest.approx(best["score"], abs=1e-4)
        alone = [over_http(serving, "texts", "text", [text.encode()])["scores"] for text in TEXTS]
        np.testing.assert_allclose(np.concatenate(alone), answer["scores"], atol=1e-5)
        with pytest.raises(Refused):
            over_http(serving, "images", "image", [b"no image"])
        command = [str(Path(sys.executable).with_name("trireme")), "verify", "--repository", str(repository)]
        verified = subprocess.run(
            [*command, "--url", serving.http, "--grpc-url", serving.grpc], capture_output=True, text=True, check=False
        )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_the_network_has_full_dims_and_nothing_that_its_backend_has_no_use_for(repository):
    text = (repository / "texts_network/config.pbtxt").read_text()
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert (config.backend, config.max_batch_size) == ("openvino", 0)
    assert [list(tensor.dims) for tensor in config.input] == [[-1, -1], [-1, -1]]
    assert [list(tensor.dims) for tensor in config.output] == [[-1, -1, 3]]
    assert not config.HasField("dynamic_batching")
    assert not config.HasField("optimization")
    assert set(config.parameters) == {"trireme.heartbeat"}
    before = (repository / "texts_preprocess/config.pbtxt").read_text()
    windows = text_format.Parse(before, model_config_pb2.ModelConfig()).parameters["max_windows"].string_value
    assert int(windows) == 8192 // 66, "a row of them all"
