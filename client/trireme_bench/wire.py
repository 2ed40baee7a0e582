"""Requests as the bytes that travel, and answers from such bytes: the one place that touches tritonclient.

Requests are built once, before the load, so that the loop that sends them has nothing to build and nothing to parse.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import tritonclient.grpc
import tritonclient.http
from numpy.typing import NDArray
from trireme_client.results import ModelMetadata
from tritonclient.grpc import service_pb2

Encoding: TypeAlias = Literal["json", "binary", "grpc"]
Answer: TypeAlias = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Target:
    """A model that takes one BYTES element per item."""

    model: str
    input_name: str
    input_shape: tuple[int, ...]
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, metadata: ModelMetadata) -> "Target":
        """Raises `ValueError` if the model wants anything else."""
        if len(metadata.inputs) != 1 or metadata.inputs[0].datatype != "BYTES":
            raise ValueError(f"model {metadata.name!r} does not have one BYTES input")
        tensor = metadata.inputs[0]
        return cls(metadata.name, tensor.name, (1,) * len(tensor.shape), tuple(out.name for out in metadata.outputs))


def request(target: Target, item: bytes, encoding: Encoding, host: str) -> bytes:
    """A whole HTTP/1.1 request, or the message of a gRPC call. JSON can only carry an item that is UTF-8."""
    if encoding == "grpc":
        return _grpc(target, item)
    if encoding == "json":
        return _http(target, host, _json(target, item), None)
    body, json_size = _binary(target, item)
    return _http(target, host, body, json_size)


def _json(target: Target, item: bytes) -> bytes:
    tensor = {"name": target.input_name, "datatype": "BYTES", "shape": target.input_shape, "data": [item.decode()]}
    return json.dumps({"inputs": [tensor], "outputs": [{"name": name} for name in target.outputs]}).encode()


def _binary(target: Target, item: bytes) -> tuple[bytes, int]:
    tensor = tritonclient.http.InferInput(target.input_name, list(target.input_shape), "BYTES")
    tensor.set_data_from_numpy(np.array([item], object).reshape(target.input_shape))
    outputs = [tritonclient.http.InferRequestedOutput(name) for name in target.outputs]
    body, json_size = tritonclient.http.InferenceServerClient.generate_request_body([tensor], outputs=outputs)
    return body, json_size


def _http(target: Target, host: str, body: bytes, json_size: int | None) -> bytes:
    lines = [f"POST /v2/models/{target.model}/infer HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"Inference-Header-Content-Length: {json_size}"] if json_size is not None else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def _grpc(target: Target, item: bytes) -> bytes:
    message = service_pb2.ModelInferRequest(model_name=target.model)
    message.inputs.add(name=target.input_name, datatype="BYTES", shape=target.input_shape)
    message.raw_input_contents.append(len(item).to_bytes(4, "little") + item)
    for name in target.outputs:
        message.outputs.add(name=name)
    return bytes(message.SerializeToString())


def answer(target: Target, reply: bytes, encoding: Encoding) -> Answer:
    """The outputs in a reply: a whole HTTP response, or the message of a gRPC call."""
    if encoding == "grpc":
        message = service_pb2.ModelInferResponse.FromString(reply)
        result = tritonclient.grpc.InferResult(message)
    else:
        head, _, body = reply.partition(b"\r\n\r\n")
        result = tritonclient.http.InferResult.from_response_body(body, header_length=_json_size(head))
    return {name: result.as_numpy(name) for name in target.outputs}


def text_of(reply: bytes) -> str:
    """What a reply that is no answer says: the body of an HTTP response, or all of anything else."""
    return reply.rpartition(b"\r\n\r\n")[2].decode(errors="replace")[:300]


def _json_size(head: bytes) -> int | None:
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"inference-header-content-length":
            return int(value)
    return None
