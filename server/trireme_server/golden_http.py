"""Golden samples over HTTP, in Triton's binary tensor extension."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

from trireme_server.golden import Answer
from trireme_server.manifest import GoldenSample, Tensor
from trireme_server.triton_api import Reply, TritonApi, TritonRefused

_TIMEOUT_S = 120.0
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, struct.error)


def ask_http(triton: TritonApi, entry: str, sample: GoldenSample) -> Answer:
    """BYTES travel raw, since JSON cannot carry every byte, and numbers as JSON.

    Raises:
        TritonRefused, TritonUnreachable: there is no answer.
    """
    blobs = [_pack(tensor.values) for tensor in sample.inputs if tensor.datatype == "BYTES"]
    header = {
        "inputs": [_input_header(tensor) for tensor in sample.inputs],
        "outputs": [
            {"name": tensor.name, "parameters": {"binary_data": tensor.datatype == "BYTES"}}
            for tensor in sample.outputs
        ],
    }
    text = json.dumps(header).encode()
    reply = triton.infer(entry, text + b"".join(blobs), len(text), _TIMEOUT_S)
    try:
        return _read_answer(reply)
    except _UNREADABLE as error:
        raise TritonRefused(f"the answer cannot be read as Triton's: {error!r}") from error


def _input_header(tensor: Tensor) -> dict[str, Any]:
    head = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
    if tensor.datatype == "BYTES":
        return {**head, "parameters": {"binary_data_size": len(_pack(tensor.values))}}
    return {**head, "data": list(tensor.values)}


def _read_answer(reply: Reply) -> Answer:
    header_length = len(reply.body) if reply.header_length is None else reply.header_length
    answer, offset = {}, header_length
    for output in json.loads(reply.body[:header_length])["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        if size is not None and output["datatype"] != "BYTES":
            raise ValueError("numbers were asked for as JSON")
        values = _numbers(output["data"]) if size is None else _unpack(reply.body[offset : offset + size])
        offset += size or 0
        answer[output["name"]] = Tensor(output["name"], output["datatype"], tuple(output["shape"]), tuple(values))
    return answer


def _numbers(values: Sequence[Any]) -> Sequence[float]:
    if not all(isinstance(value, int | float) for value in values):
        raise ValueError("data holds something else than numbers")
    for value in values:
        float(value)  # raises OverflowError for an integer that no tensor holds
    return values


def _pack(items: Sequence[bytes]) -> bytes:
    """Each item after its length: four bytes, little endian."""
    return b"".join(struct.pack("<I", len(item)) + item for item in items)


def _unpack(blob: bytes) -> list[bytes]:
    items, offset = [], 0
    while offset < len(blob):
        (length,) = struct.unpack_from("<I", blob, offset)
        items.append(blob[offset + 4 : offset + 4 + length])
        offset += 4 + length
    return items
