"""Strings arrive exactly as they were sent, through every way in."""

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from served import TRANSPORTS, Refused, Serving, Transport, over_grpc, over_http, over_json

pytestmark = pytest.mark.system

NOTABLE = [
    "",
    " ",
    "ends with a NUL\0",
    "a\0b",
    "naïve café",
    "👩🏽‍🚀 to the 🌕",
    "汉字和假名かなカナ한국어",
    "مرحبا بالعالم",
    "שלום עולם",
    "\u202eright to left override",
    "line\nbreak\ttab",
    "\ufeffbyte order mark",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈",
]
LIVE = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def embedding(transport: Transport, serving: Serving, texts: list[bytes]) -> np.ndarray:
    return transport(serving, "embed", "text", texts)["embedding"].astype(np.float64)


@LIVE
@given(text=st.text(max_size=200))
@example(text="\0")
def test_every_way_in_gives_the_same_embedding(serving: Serving, text: str) -> None:
    answers = [embedding(transport, serving, [text.encode()]) for transport in TRANSPORTS]
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], atol=2e-3)


@LIVE
@given(texts=st.lists(st.text(max_size=80), min_size=2, max_size=9))
def test_a_batch_equals_its_texts_alone(serving: Serving, texts: list[str]) -> None:
    encoded = [text.encode() for text in texts]
    together = embedding(over_grpc, serving, encoded)
    alone = np.concatenate([embedding(over_grpc, serving, [text]) for text in encoded])
    assert (together * alone).sum(axis=1).min() > 0.9999


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_notable_strings_are_answered(serving: Serving, transport: Transport) -> None:
    vectors = embedding(transport, serving, [text.encode() for text in NOTABLE])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_text_of_100_kb_is_answered_in_windows(serving: Serving, transport: Transport) -> None:
    answer = transport(serving, "guard", "text", [b"the quick brown fox jumps over it. " * 2857])
    assert int(answer["windows"].flat[0]) > 10
    assert 0 <= float(answer["score"].flat[0]) <= 1


@pytest.mark.parametrize("transport", [over_http, over_grpc])
@pytest.mark.parametrize("text", [b"\xff", b"abc\xc3", b"\xed\xa0\x80", b"\x00\xfe\xff\x00"])
def test_bytes_that_are_not_utf_8_are_refused_by_name(serving: Serving, transport: Transport, text: bytes) -> None:
    with pytest.raises(Refused, match=r"(?i)text.*utf-?8"):
        transport(serving, "embed", "text", [text])


def test_raw_bytes_in_json_that_are_not_utf_8_are_refused(serving: Serving) -> None:
    body = b'{"inputs":[{"name":"text","datatype":"BYTES","shape":[1,1],"data":["\xff\xfe"]}]}'
    status, _ = serving.post("/v2/models/embed/infer", body)
    assert 400 <= status < 500
    assert over_json(serving, "embed", "text", [b"still here"])["embedding"].shape == (1, 384)
