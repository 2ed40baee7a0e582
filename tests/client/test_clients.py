"""Both clients over both protocols against a real server."""

import gc
import hashlib
import io
import time
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standin_server import BATCH_SIZE, MODELS, StandinServer, free_ports
from trireme_client import (
    EMBED,
    DeadlineExceeded,
    Embedding,
    Entity,
    Extraction,
    InvalidInput,
    ModelNotFound,
    ServerError,
    ServerUnavailable,
)
from trireme_client.results import Health, ImageLabel, TensorMetadata
from trireme_client.retry import RetryPolicy

pytestmark = pytest.mark.system

NEVER = RetryPolicy(retries=0)
QUICKLY = RetryPolicy(retries=4, first_s=0.01)


def expected_vector(text: str) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], np.uint8).astype(np.float32)


def test_every_text_gets_its_own_vector_in_order(client: Any) -> None:
    texts = [f"text number {number}" for number in range(37)]
    results = client.embed(texts)
    assert [result.vector.tolist() for result in results] == [expected_vector(text).tolist() for text in texts]


def test_an_empty_list_gives_an_empty_list(client: Any) -> None:
    assert client.embed([]) == []


@pytest.mark.parametrize("text", ["", "ends with a NUL\0", "naïve 汉字 👩🏽‍🚀", "a\nb\r\n", "x" * 100_000])
def test_a_text_arrives_as_it_was_sent(client: Any, text: str) -> None:
    (result,) = client.embed([text])
    assert result.vector.tolist() == expected_vector(text).tolist()
    assert result.windows == 1 + len(text.encode()) // 100


def test_a_list_travels_in_requests_of_the_models_batch_size(client: Any, server: StandinServer) -> None:
    server.forget("guard")
    client.classify(["one"] * (2 * BATCH_SIZE + 1))
    assert sorted(items for _, _, items in server.trace("guard")) == [1, BATCH_SIZE, BATCH_SIZE]


def test_no_more_requests_are_in_flight_than_allowed(
    server: StandinServer, protocol: str, connect: Callable[..., Any]
) -> None:
    server.forget("embed")
    connect(server.url(protocol), concurrency=3).embed(["sleep 0.02"] * BATCH_SIZE * 12)
    requests = server.trace("embed")
    at_once = [sum(start <= moment < end for start, end, _ in requests) for moment, _, _ in requests]
    assert len(requests) == 12
    assert 2 <= max(at_once) <= 3


def test_classify_gives_label_scores_and_windows(client: Any) -> None:
    safe, unsafe = client.classify(["good day", "attack " * 20])
    assert (safe.label, safe.score, safe.scores.tolist(), safe.windows) == ("safe", 0.75, [0.75, 0.25], 1)
    assert (unsafe.label, unsafe.windows) == ("unsafe", 2)
    assert unsafe.score == pytest.approx(0.9)


def test_extract_gives_the_entities_of_each_text(client: Any) -> None:
    nobody, people = client.extract(["nobody", "🚣 Ülo met Themistocles " * 5], model="ner")
    assert nobody == Extraction((), windows=1)
    assert people.entities[0] == Entity("NAME", 0.75, 2, 5, "Ülo")
    assert (len(people.entities), people.windows) == (10, 2)


def test_rerank_gives_the_documents_best_first(client: Any) -> None:
    documents = ["no", "oars " * 30, "", "row", "oar", "oar"]
    results = client.rerank("oars", documents, model="rank")
    assert [(one.index, one.score, one.windows) for one in results[:2]] == [(1, 1.0, 2), (4, 0.75, 1)]
    assert [one.index for one in results] == [1, 4, 5, 3, 0, 2]
    assert client.rerank("oars", documents, model="rank", top_k=2) == results[:2]
    assert client.rerank("oars", [], model="rank") == []


def test_a_document_that_is_refused_is_named_by_its_index(client: Any) -> None:
    with pytest.raises(InvalidInput, match="refused as asked") as refused:
        client.rerank("oars", ["fine", "refuse", "fine"], model="rank")
    assert refused.value.index == 1
    with pytest.raises(InvalidInput, match="query: not valid Unicode"):
        client.rerank("\ud800", ["fine"], model="rank")


def test_one_text_where_a_list_of_documents_is_meant_is_refused(client: Any) -> None:
    with pytest.raises(TypeError):
        client.rerank("oars", "oars", model="rank")


@pytest.mark.parametrize("top_k", [0, -1])
def test_a_ranking_of_nothing_is_refused_before_anything_is_sent(client: Any, top_k: int) -> None:
    with pytest.raises(InvalidInput, match="top_k must be at least 1"):
        client.rerank("oars", ["refuse"], model="there is no such model", top_k=top_k)


def test_an_image_may_be_a_path_bytes_or_an_open_file(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    path.write_bytes(b"JPEG...")
    results = client.classify_image([path, str(path), b"PNG ...", io.BytesIO(b"WEBP...")])
    assert [result.label for result in results] == ["JPEG", "JPEG", "PNG ", "WEBP"]
    assert results[0].labels == (ImageLabel("JPEG", 0.5), ImageLabel("second", 0.25), ImageLabel("third", 0.125))


def test_an_image_becomes_a_vector(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    path.write_bytes(b"JPEG...")
    results = client.embed_image([path, b"PNG ..."], "pictures")
    expected = [expected_vector(text).tolist() for text in ("JPEG...", "PNG ...")]
    assert [result.vector.tolist() for result in results] == expected


@pytest.mark.parametrize(
    ("model", "said"),
    [("vision", "model 'vision' has no output 'embedding'"), ("embed", "model 'embed' has no BYTES input 'image'")],
)
def test_a_model_that_embeds_no_images_is_told(client: Any, model: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        client.embed_image([b"JPEG"], model)


def test_one_text_in_place_of_a_list_is_refused(client: Any) -> None:
    with pytest.raises(TypeError, match="list"):
        client.embed("one text")


def test_an_invalid_item_is_named_by_its_index(client: Any) -> None:
    texts = ["fine"] * 3 * BATCH_SIZE
    texts[BATCH_SIZE + 1] = "refuse this"
    with pytest.raises(InvalidInput, match="item 5: text: refused as asked") as caught:
        client.embed(texts)
    assert caught.value.index == BATCH_SIZE + 1


def test_a_stream_gives_the_others_of_a_batch_with_an_invalid_item(client: Any) -> None:
    texts = ["a", "refuse 1", "b", "\ud800", "c", "refuse 2"]
    outcomes = list(client.stream(EMBED, texts, "embed"))
    refused = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, InvalidInput)]
    assert refused == [outcomes[index].index for index in refused] == [1, 3, 5]
    vectors = [outcome.vector.tolist() for outcome in outcomes if isinstance(outcome, Embedding)]
    assert vectors == [expected_vector(text).tolist() for text in "abc"]


def test_a_stream_reads_its_items_only_a_little_ahead(
    server: StandinServer, protocol: str, connect: Callable[..., Any]
) -> None:
    numbers = count()
    texts = (f"text {number}" for number in numbers)
    outcomes = connect(server.url(protocol), concurrency=2).stream(EMBED, texts, "embed")
    assert len(list(islice(outcomes, 10))) == 10
    assert next(numbers) <= 10 + 4 * BATCH_SIZE
    outcomes.close()


def test_a_file_that_is_not_there_is_an_invalid_item(client: Any) -> None:
    with pytest.raises(InvalidInput, match=r"item 1: image: cannot read 'nowhere\.jpg'"):
        client.classify_image([b"JPEG", "nowhere.jpg"])


def test_an_unknown_model_is_not_found(client: Any) -> None:
    with pytest.raises(ModelNotFound, match="nothing"):
        client.embed(["text"], model="nothing")


def test_a_model_for_another_task_is_refused_with_what_it_has(client: Any) -> None:
    with pytest.raises(InvalidInput, match="no output 'embedding'; it has 'label', 'score', 'scores', 'windows'"):
        client.embed(["text"], model="guard")
    with pytest.raises(InvalidInput, match="no BYTES input 'text'; it has 'image'"):
        client.embed(["text"], model="vision")


def test_a_failure_of_the_model_is_the_servers_error(client: Any) -> None:
    with pytest.raises(ServerError, match="failed as asked"):
        client.embed(["fail"])


def test_failures_of_several_requests_at_once_are_one_error(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ServerError, match="failed as asked"):
        client.embed(["fail"] * BATCH_SIZE * 6)
    gc.collect()
    assert caplog.records == []  # such as asyncio's "Task exception was never retrieved"


@pytest.mark.parametrize("limits", [{"timeout_s": 0}, {"timeout_s": -1}, {"concurrency": 0}])
def test_limits_that_allow_nothing_are_refused(connect: Callable[..., Any], limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be positive and at most"):
        connect(**limits)


def test_a_busy_server_is_asked_again(server: StandinServer, protocol: str, connect: Callable[..., Any]) -> None:
    client = connect(server.url(protocol), retry=QUICKLY)
    assert client.classify([f"busy 2 {time.monotonic()}"])[0].label == "safe"


def test_a_server_that_stays_busy_is_unavailable(
    server: StandinServer, protocol: str, connect: Callable[..., Any]
) -> None:
    with pytest.raises(ServerUnavailable, match="busy as asked"):
        connect(server.url(protocol), retry=QUICKLY).classify(["busy 1000"])


def test_a_timeout_ends_a_request_and_is_not_retried(
    server: StandinServer, protocol: str, connect: Callable[..., Any]
) -> None:
    client = connect(server.url(protocol), timeout_s=0.3, retry=QUICKLY)
    client.metadata("guard")
    server.forget("guard")
    with pytest.raises(DeadlineExceeded):
        client.classify(["sleep 0.6"])
    connect(server.url(protocol)).classify(["after it"])
    assert len(server.trace("guard")) == 2


def test_a_client_works_on_after_a_timeout(server: StandinServer, protocol: str, connect: Callable[..., Any]) -> None:
    client = connect(server.url(protocol), timeout_s=0.3, concurrency=1)
    with pytest.raises(DeadlineExceeded):
        client.embed(["sleep 0.6"])
    assert client.embed(["after"])[0].vector.tolist() == expected_vector("after").tolist()


def test_the_server_drops_a_queued_request_whose_time_is_over(
    server: StandinServer, protocol: str, connect: Callable[..., Any]
) -> None:
    server.forget("queued")
    client = connect(server.url(protocol), timeout_s=0.5, concurrency=8)
    with pytest.raises(DeadlineExceeded):
        client.embed(["sleep 0.2"] * BATCH_SIZE * 8, model="queued")
    connect(server.url(protocol)).embed(["last"], model="queued")
    assert len(server.trace("queued")) < 9


def test_a_port_where_nothing_listens_is_unavailable(protocol: str, connect: Callable[..., Any]) -> None:
    client = connect(f"{protocol}://127.0.0.1:{free_ports(1)[0]}", retry=NEVER)
    with pytest.raises(ServerUnavailable):
        client.embed(["text"])
    with pytest.raises(ServerUnavailable):
        client.health()
    assert client.ready() is False


def test_a_running_server_is_live_and_ready(client: Any) -> None:
    assert client.health() == Health(live=True, ready=True)
    assert client.ready() is True


def test_models_lists_the_repository(client: Any) -> None:
    states = {state.name: state.state for state in client.models()}
    assert states == dict.fromkeys(MODELS, "READY")


def test_metadata_is_what_the_server_says(client: Any) -> None:
    metadata = client.metadata("embed")
    assert (metadata.name, metadata.versions, metadata.max_batch_size) == ("embed", ("1",), BATCH_SIZE)
    assert metadata.inputs == (TensorMetadata("text", "BYTES", (-1, 1)),)
    assert metadata.outputs[0] == TensorMetadata("embedding", "FP32", (-1, 8))
