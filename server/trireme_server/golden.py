"""Golden samples: a request whose right answer is known, sent through the server's real endpoint."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from trireme_server.manifest import Check, GoldenSample, Tensor
from trireme_server.triton_api import Reply, TritonApi

_TIMEOUT_S = 120.0

Answer = dict[str, Tensor]
AskStream = Callable[[str, GoldenSample], Answer]  # for entries that HTTP /infer does not serve


class WrongAnswer(Exception):
    """The model answers, but not as the original does. The text says where they differ."""


def replay(triton: TritonApi, entry: str, sample: GoldenSample, ask_stream: AskStream | None = None) -> None:
    """Sends one sample to `entry` and compares the answer.

    Raises:
        WrongAnswer: the answer differs by more than the sample allows.
        TritonRefused, TritonUnreachable: there is no answer.
    """
    answer = ask_stream(entry, sample) if ask_stream else _ask(triton, entry, sample)
    for expected in sample.outputs:
        if expected.name not in answer:
            raise WrongAnswer(f"{entry}: output {expected.name!r} is missing")
        if difference := compare(expected, answer[expected.name]):
            raise WrongAnswer(f"{entry}: output {expected.name!r} {difference}")


def compare(expected: Tensor, given: Tensor) -> str | None:
    """How `given` differs from `expected` beyond the check's bound; None: it does not."""
    if given.shape != expected.shape:
        return f"has shape {list(given.shape)} instead of {list(expected.shape)}"
    assert expected.check is not None, "an expected output says how it is compared"
    return _DIFFERENCES[expected.check.kind](expected, given, expected.check)


def _unequal(expected: Tensor, given: Tensor, _check: Check) -> str | None:
    pairs = zip(expected.values, given.values, strict=True)
    return next((f"is {have!r} instead of {want!r}" for want, have in pairs if have != want), None)


def _too_far(expected: Tensor, given: Tensor, check: Check) -> str | None:
    distances = [abs(have - want) for want, have in zip(expected.values, given.values, strict=True)]
    if all(distance <= check.bound for distance in distances):  # false for a NaN
        return None
    return f"is off by {max(distances):.3g}; at most {check.bound:g} is allowed"


def _turned(expected: Tensor, given: Tensor, check: Check) -> str | None:
    width = expected.shape[-1]
    rows = zip(_rows(expected.values, width), _rows(given.values, width), strict=True)
    cosines = [_cosine(want, have) for want, have in rows]
    if all(cosine >= check.bound for cosine in cosines):  # false for a NaN
        return None
    return f"has cosine {min(cosines):.6f}; at least {check.bound:g} is needed"


_DIFFERENCES: dict[str, Callable[[Tensor, Tensor, Check], str | None]] = {
    "equal": _unequal,
    "max_abs": _too_far,
    "min_cosine": _turned,
}


def _rows(values: Sequence[float], width: int) -> list[Sequence[float]]:
    return [values[begin : begin + width] for begin in range(0, len(values), width)]


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    norms = math.hypot(*a) * math.hypot(*b)
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / norms if norms else math.nan


def _ask(triton: TritonApi, entry: str, sample: GoldenSample) -> Answer:
    """BYTES travel raw, since JSON cannot carry every byte, and numbers as JSON (Triton's binary tensor extension)."""
    blobs = [_pack(tensor.values) for tensor in sample.inputs if tensor.datatype == "BYTES"]
    header = {
        "inputs": [_input_header(tensor) for tensor in sample.inputs],
        "outputs": [
            {"name": tensor.name, "parameters": {"binary_data": tensor.datatype == "BYTES"}}
            for tensor in sample.outputs
        ],
    }
    text = json.dumps(header).encode()
    return _read_answer(triton.infer(entry, text + b"".join(blobs), len(text), _TIMEOUT_S))


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
        values = output["data"] if size is None else _unpack(reply.body[offset : offset + size])
        offset += size or 0
        answer[output["name"]] = Tensor(output["name"], output["datatype"], tuple(output["shape"]), tuple(values))
    return answer


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
