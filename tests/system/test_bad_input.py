"""Bad input is refused by name with a 4xx, and the server goes on."""

import contextlib
import http.client
import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image
from served import Refused, Serving, Transport, over_grpc, over_http, over_json

pytestmark = pytest.mark.system


def body(**changes: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": ["hello"], **changes}]}


@pytest.fixture(autouse=True)
def still_serving(serving: Serving) -> Any:
    yield
    assert over_json(serving, "embed", "text", [b"hello"])["embedding"].shape == (1, 384)


@pytest.mark.parametrize(
    ("model", "request_body", "named"),
    [
        ("embed", body(datatype="FP32", data=[1.0]), "text"),
        ("embed", body(datatype="INT64", data=[1]), "text"),
        ("embed", body(shape=[1, 2], data=["a", "b"]), "text"),
        ("embed", body(shape=[1]), "text"),
        ("embed", body(shape=[0, 1], data=[]), "text|batch"),
        ("embed", body(shape=[2, 1]), "text|element"),
        ("embed", body(name="texts"), "text"),
        ("embed", {"inputs": []}, "text|input"),
        ("embed", body(shape=[65, 1], data=["a"] * 65), "64|batch"),
        ("guard", body(datatype="BOOL", data=[True]), "text"),
        ("vision", body(), "text"),
        ("nothing", body(), "nothing"),
    ],
)
def test_a_wrong_request_is_a_4xx_that_names_the_fault(
    serving: Serving, model: str, request_body: dict[str, Any], named: str
) -> None:
    status, answer = serving.infer_json(model, request_body)
    assert 400 <= status < 500, answer
    assert any(name in answer["error"] for name in named.split("|")), answer


@pytest.mark.parametrize("length", [513, 600, 40_000])
def test_a_row_that_is_too_long_for_the_network_is_refused_and_spoils_nothing(serving: Serving, length: int) -> None:
    """Every text here has 16 tokens, the same shape before and after the row that is refused."""
    text = [b"hello " * 14]
    expected = over_json(serving, "embed", "text", text)["embedding"]
    row = {"datatype": "INT64", "shape": [1, length], "data": [1] * length}
    tokens = {"inputs": [{"name": "input_ids", **row}, {"name": "attention_mask", **row}]}
    for _ in range(4):  # both processes of the network
        status, answer = serving.infer_json("embed_network", tokens)
        assert status == 400
        assert f"'attention_mask', row 0: a segment of {length} tokens" in answer["error"]
        assert "at most 512" in answer["error"]
        np.testing.assert_allclose(over_json(serving, "embed", "text", text)["embedding"], expected, atol=1e-2)


NEGATIVE_SHAPE = b'{"inputs":[{"name":"text","datatype":"BYTES","shape":[-1,1],"data":["a"]}]}'
NO_REQUESTS = [NEGATIVE_SHAPE, b" ", b"{", b"{}", b"[]", b"null", b'{"inputs": 3}', b"\x00" * 100, b"{" * 10_000]


@pytest.mark.parametrize("data", NO_REQUESTS, ids=[repr(data[:12]) for data in NO_REQUESTS])
def test_a_body_that_is_no_request_is_refused(serving: Serving, data: bytes) -> None:
    status, answer = serving.post("/v2/models/embed/infer", data)
    assert status >= 400  # Triton 2.51 itself answers 500 to JSON that it cannot read
    assert b"error" in answer


def as_form(serving: Serving, path: str, data: bytes, **headers: str) -> tuple[int, bytes]:
    """A body of the type that `curl -d` and `--data-binary` name unasked. Triton's HTTP server reads forms itself."""
    with contextlib.closing(http.client.HTTPConnection(serving.http, timeout=60)) as connection:
        connection.request("POST", path, data, {"Content-Type": "application/x-www-form-urlencoded", **headers})
        response = connection.getresponse()
        return response.status, response.read()


@pytest.mark.parametrize("size", [5_000_000, 50_000_000])
def test_a_large_body_that_is_called_a_form_is_answered(serving: Serving, size: int) -> None:
    header = {"Inference-Header-Content-Length": "0"}
    status, answer = as_form(serving, "/v2/models/vision/infer", b"\xff\xd8" + b"x" * size, **header)
    assert status == 400, answer
    assert b"image" in answer or b"bytes" in answer


def test_a_large_photograph_is_answered_however_it_is_sent(serving: Serving) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1900, 1900, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "JPEG", quality=95)
    assert buffer.tell() > 4_000_000
    header = {"Inference-Header-Content-Length": "0", "Accept-Encoding": "identity"}
    assert as_form(serving, "/v2/models/vision/infer", buffer.getvalue(), **header)[0] == 200


def test_json_nested_without_end_does_not_end_the_server(serving: Serving) -> None:
    depth = 60_000
    nested = b"[" * depth + b'"x"' + b"]" * depth
    data = b'{"inputs":[{"name":"text","datatype":"BYTES","shape":[1,1],"data":' + nested + b"}]}"
    assert serving.post("/v2/models/embed/infer", data)[0] in (200, 400)


@pytest.mark.parametrize("transport", [over_http, over_grpc])
def test_a_body_of_50_mb_is_refused(serving: Serving, transport: Transport) -> None:
    with pytest.raises(Refused, match="text"):
        transport(serving, "embed", "text", [b"word " * 10_000_000])
    with pytest.raises(Refused, match="image"):
        transport(serving, "vision", "image", [b"\xff\xd8\xff" + bytes(50_000_000)])


def encoded(image: Image.Image, file_format: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, file_format)
    return buffer.getvalue()


def bomb() -> bytes:
    """A PNG of 50,000 x 50,000 grey pixels in a few kilobytes."""
    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1_000_000))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8))
BAD_IMAGES = {
    "empty": b"",
    "text": b"this is no image",
    "truncated jpeg": encoded(NOISE, "JPEG")[:-4000],
    "truncated png": encoded(NOISE, "PNG")[:-4000],
    "truncated webp": encoded(NOISE, "WEBP")[:-4000],
    "header only": encoded(NOISE, "JPEG")[:20],
    "gif": encoded(NOISE, "GIF"),
    "bmp": encoded(NOISE, "BMP"),
    "bomb": bomb(),
}


@pytest.mark.parametrize("transport", [over_http, over_grpc])
@pytest.mark.parametrize("name", BAD_IMAGES)
def test_a_bad_image_is_refused_by_name(serving: Serving, transport: Transport, name: str) -> None:
    with pytest.raises(Refused, match="image") as refused:
        transport(serving, "vision", "image", [BAD_IMAGES[name]])
    assert "400" in str(refused.value) or "INVALID_ARGUMENT" in str(refused.value)
