"""The stages inside the real server, over JSON, binary HTTP and gRPC."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image
from tokenizers import pre_tokenizers
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.system

few = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NAMES = ("cat", "dog", "owl")
MODELS = ["bytes", "tokens", "tokens_at_once", "embed", "classify", "pixels", "best"]
TEXTS = ["", "a", "x" * 100_000, "tail\0", "\0", "🙂 👩‍👩‍👧", "汉字かな交じり", "שלום مرحبا", "\ufeff\r\n\t\x7f"]


@pytest.fixture(scope="module")
def model_config(config_of):
    """`model_config(stage, parameters, sizes)`: a config for the server, with requests gathered for `delay_ms`."""

    def make(stage, parameters, sizes=(), delay_ms=50):
        ragged = {"allow_ragged_batch": True} if stage in ("embedding", "classification") else {}
        config = config_of(stage, parameters, dict(sizes))
        return {
            **config,
            "input": [{**tensor, **ragged} for tensor in config["input"]],
            "backend": "stages",
            "max_batch_size": 16,
            "dynamic_batching": {"preferred_batch_size": [16], "max_queue_delay_microseconds": 1000 * delay_ms},
            "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
        }

    return make


@pytest.fixture(scope="module")
def server(triton, write_model, model_config, tmp_path_factory, tokenizer_files, labels):
    repository = tmp_path_factory.mktemp("repository")
    add = partial(write_model, repository)
    tokenizer = {"tokenizer.json": tokenizer_files["llama"]}
    windows = {"max_length": "10", "long_text": "windows", "window_overlap": "2", "max_windows": "4"}
    scores = {"threshold": "0.5", "positive_label": "owl"}
    two_instances = {"instance_group": [{"count": 2, "kind": "KIND_CPU"}]}
    add("bytes", model_config("tokenize", {"max_length": "200000"}, delay_ms=0), tokenizer)
    add("tokens", model_config("tokenize", windows), tokenizer)
    add("tokens_at_once", model_config("tokenize", windows, delay_ms=0) | two_instances, tokenizer)
    add("embed", model_config("embedding", {}, {"D": 4}))
    add("classify", model_config("classification", scores, {"C": 3}), labels(*NAMES))
    add("pixels", model_config("image", {"size": "16"}))
    add("best", model_config("top_k", {"k": "2"}, {"C": 3}), labels(*NAMES))
    add("broken", model_config("embedding", {}, {"D": 4}) | {"parameters": {"stage": {"string_value": "embeding"}}})
    return triton(repository, models=MODELS)


def bytes_tensor(*items):
    return np.array([[item if isinstance(item, bytes) else item.encode()] for item in items], np.object_)


def infer(client_module, url, model, tensors):
    """All outputs of one request with tritonclient, which sends tensors as binary."""
    inputs = []
    for name, values in tensors.items():
        datatype = tritonclient.utils.np_to_triton_dtype(values.dtype)
        inputs.append(client_module.InferInput(name, list(values.shape), datatype))
        inputs[-1].set_data_from_numpy(values)
    with client_module.InferenceServerClient(url) as client:
        result = client.infer(model, inputs)
        response = result.get_response()
        outputs = response["outputs"] if isinstance(response, dict) else response.outputs
        names = [output["name"] if isinstance(output, dict) else output.name for output in outputs]
        return {name: result.as_numpy(name) for name in names}


def infer_json(client, model, tensors):
    """The same in plain JSON, where BYTES are strings."""
    datatypes = {np.dtype(np.object_): "BYTES", np.dtype(np.float32): "FP32", np.dtype(np.int32): "INT32"}
    inputs = [
        {
            "name": name,
            "shape": list(values.shape),
            "datatype": datatypes[values.dtype],
            "data": [item.decode() if isinstance(item, bytes) else item for item in values.ravel().tolist()],
        }
        for name, values in tensors.items()
    ]
    answer = client.post(f"/v2/models/{model}/infer", json={"inputs": inputs})
    if answer.status_code != 200:
        raise InferenceServerException(answer.json()["error"], status=str(answer.status_code))
    return {
        output["name"]: np.array(
            [item.encode() if isinstance(item, str) else item for item in output["data"]],
            np.object_ if output["datatype"] == "BYTES" else None,
        ).reshape(output["shape"])
        for output in answer.json()["outputs"]
    }


@pytest.fixture(scope="module")
def protocols(server):
    with httpx.Client(base_url=f"http://{server.http}", timeout=60) as client:
        yield {
            "json": partial(infer_json, client),
            "binary": partial(infer, tritonclient.http, server.http),
            "grpc": partial(infer, tritonclient.grpc, server.grpc),
        }


@pytest.fixture(scope="module", params=["json", "binary", "grpc"])
def ask(protocols, request):
    return protocols[request.param]


@pytest.fixture(scope="module")
def bytes_of_ids(tokenizer_files):
    """What the byte-level tokenizer read, from its ids: one token per byte."""
    vocabulary = json.loads(tokenizer_files["llama"])["model"]["vocab"]
    letters = {token_id: token for token, token_id in vocabulary.items()}
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    # GPT-2's byte alphabet: printable bytes stand for themselves, the others follow from U+0100 on
    byte_of = {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
    assert set(byte_of) == set(pre_tokenizers.ByteLevel.alphabet())
    return lambda ids: bytes(byte_of[letters[token_id]] for token_id in ids[1:])


@pytest.mark.parametrize("text", TEXTS, ids=[f"{len(text)}-{text[:4]!a}" for text in TEXTS])
def test_every_string_arrives_byte_for_byte(ask, bytes_of_ids, text):
    answer = ask("bytes", {"text": bytes_tensor(text)})
    assert bytes_of_ids(answer["input_ids"][0]) == text.encode()


@few
@given(st.lists(st.text(), min_size=1, max_size=4))
def test_any_strings_arrive_byte_for_byte(ask, bytes_of_ids, texts):
    answer = ask("bytes", {"text": bytes_tensor(*texts)})
    for text, ids, mask in zip(texts, answer["input_ids"], answer["attention_mask"], strict=True):
        assert bytes_of_ids(ids[mask > 0]) == text.encode()


@few
@given(st.lists(st.text(max_size=30), min_size=1, max_size=8))
def test_batched_and_single_texts_agree(ask, texts):
    texts = [text for text in texts if len(text.encode()) <= 30]  # four windows of ten tokens, overlapping by two
    if not texts:
        return
    batch = ask("tokens_at_once", {"text": bytes_tensor(*texts)})
    for row, text in enumerate(texts):
        single = ask("tokens_at_once", {"text": bytes_tensor(text)})
        length = single["input_ids"].shape[1]
        assert np.array_equal(batch["input_ids"][row, :length], single["input_ids"][0])
        assert np.array_equal(batch["attention_mask"][row, :length], single["attention_mask"][0])
        assert not batch["attention_mask"][row, length:].any()
        assert batch["windows"][row] == single["windows"][0]


@pytest.mark.parametrize("protocol", ["binary", "grpc"])
@few
@given(st.binary(max_size=50))
@example(b"abc\xff")
@example(b"\xed\xa0\x80")
def test_bytes_that_are_not_utf8_are_refused_and_all_others_arrive(protocols, bytes_of_ids, protocol, raw):
    try:
        expected = raw.decode().encode()
    except UnicodeDecodeError as error:
        with pytest.raises(InferenceServerException, match=f"not UTF-8: byte 0x.. at offset {error.start}"):
            protocols[protocol]("bytes", {"text": bytes_tensor(raw)})
    else:
        answer = protocols[protocol]("bytes", {"text": bytes_tensor(raw)})
        assert bytes_of_ids(answer["input_ids"][0]) == expected


@pytest.mark.parametrize(("protocol", "status"), [("json", "400"), ("binary", "400"), ("grpc", "INVALID_ARGUMENT")])
def test_a_refusal_is_the_callers_fault_and_names_the_tensor_and_the_limit(protocols, protocol, status):
    with pytest.raises(InferenceServerException) as refused:
        protocols[protocol]("tokens", {"text": bytes_tensor("ok", "x" * 50)})
    assert status in str(refused.value.status())
    assert "input 'text', item 1: the text has 51 tokens" in refused.value.message()
    assert "at most 4 windows" in refused.value.message()


def at_once(ask, model, requests):
    """The answers to requests sent at the same time; a refusal in place of an answer."""

    def answer(tensors):
        try:
            return ask(model, tensors)
        except InferenceServerException as refusal:
            return refusal

    with ThreadPoolExecutor(len(requests)) as threads:
        return list(threads.map(answer, requests))


def png(colour):
    file = io.BytesIO()
    Image.new("RGB", (20, 24), colour).save(file, "PNG")
    return file.getvalue()


def windows_of(seed, windows, width):
    rows = np.random.default_rng(seed).normal(size=(1, windows, width)).astype(np.float32)
    return rows, np.array([[windows]], np.int32)


def mixed_requests(model):
    """Requests for `model`, some of them bad, with what each refusal says."""
    if model == "tokens":
        return [({"text": bytes_tensor("x" * n)}, None if n < 32 else "at most 4 windows") for n in range(0, 60, 4)]
    if model == "pixels":
        files = [png((n, 0, 99)) for n in range(12)]
        return [({"image": bytes_tensor(file)}, None) for file in files] + [
            ({"image": bytes_tensor(files[0][:60])}, "not a whole PNG file"),
            ({"image": bytes_tensor(b"GIF89a")}, "not a JPEG, PNG or WebP file"),
        ]
    if model == "best":
        return [({"logits": np.full((1 + n % 2, 3), [n, 5, 2], np.float32)}, None) for n in range(12)]
    name, width = {"embed": ("embedding", 4), "classify": ("logits", 3)}[model]
    requests = []
    for n in range(12):
        rows, windows = windows_of(n, 1 + n % 3, width)
        requests.append(({name: rows, "windows": windows}, None))
        requests.append(({name: rows, "windows": windows + 5}, "input 'windows' is"))
    return requests


@pytest.mark.parametrize("model", ["tokens", "embed", "classify", "pixels", "best"])
def test_requests_that_share_a_batch_are_answered_as_alone_and_bad_ones_fail_alone(server, protocols, model):
    ask, requests = protocols["binary"], mixed_requests(model)
    alone = [at_once(ask, model, [tensors])[0] for tensors, _ in requests]
    executions = execution_count(server, model)
    together = at_once(ask, model, [tensors for tensors, _ in requests])
    assert execution_count(server, model) - executions < len(requests) / 2  # they did share batches
    for (_, refusal), single, shared in zip(requests, alone, together, strict=True):
        if refusal:
            assert refusal in str(shared)
            assert str(shared) == str(single)
        else:
            assert single.keys() == shared.keys()
            assert all(np.array_equal(single[name], shared[name]) for name in single)


def execution_count(server, model):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        return client.get_inference_statistics(model).model_stats[0].execution_count


@pytest.mark.parametrize("model", ["embed", "classify", "pixels", "best"])
def test_every_protocol_gives_the_same_answer(protocols, model):
    tensors = mixed_requests(model)[0][0]
    expected = protocols["grpc"](model, tensors)
    for protocol in ("binary",) if model == "pixels" else ("binary", "json"):
        found = protocols[protocol](model, tensors)
        for name, values in expected.items():
            assert found[name].shape == values.shape
            same = values == found[name] if values.dtype == np.object_ else np.isclose(values, found[name], rtol=1e-6)
            assert same.all()


@pytest.mark.parametrize("shape", [(1,), (1, 2), (0, 1)])
def test_a_request_of_another_shape_is_refused(protocols, shape):
    with pytest.raises(InferenceServerException):
        protocols["binary"]("tokens", {"text": np.full(shape, b"x", np.object_)})


def test_a_config_that_names_no_stage_keeps_the_model_from_loading(server):
    with (
        tritonclient.grpc.InferenceServerClient(server.grpc) as client,
        pytest.raises(
            InferenceServerException, match=r"'stage' is 'embeding'; it must be one of classification, embedd"
        ),
    ):
        client.load_model("broken")


@pytest.mark.parametrize(
    ("model", "parameter", "message"),
    [
        ("tokens", {"max_lenght": "8"}, r"unknown parameter 'max_lenght'; known are long_text, max_bytes, max_length"),
        ("tokens", {"max_length": "8.5"}, r"parameter 'max_length' is '8.5'; it must be an integer of at least 1"),
        ("classify", {"positive_label": "cow"}, r"'positive_label' is 'cow'; it must be one of several: cat, dog, owl"),
    ],
)
def test_a_parameter_that_does_not_fit_keeps_the_model_from_loading(server, model, parameter, message):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        config = client.get_model_config(model, as_json=True)["config"]
        config["parameters"] |= {key: {"string_value": value} for key, value in parameter.items()}
        with pytest.raises(InferenceServerException, match=message):
            client.load_model(model, config=json.dumps(config))
        assert client.is_model_ready(model)  # with the config it had


def test_stubs_share_the_metrics_and_count_what_they_refuse(server, protocols):
    at_once(protocols["binary"], "bytes", [{"text": bytes_tensor(b"\xff")}] * 5)
    errors = server.metric_lines("trireme_stage_errors_total")
    assert 'trireme_stage_errors_total{model="bytes",reason="not_utf8",stage="tokenize"}' in "".join(errors)
    cold_start = "".join(server.metric_lines("trireme_cold_start_seconds"))
    for model in MODELS:
        for phase in ("process", "imports", "read"):
            assert f'trireme_cold_start_seconds{{model="{model}",phase="{phase}"}}' in cold_start
