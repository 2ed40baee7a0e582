"""The engine's requests and outputs as named, typed arrays: one per option, token ids in, token ids out.

This table is the interface of the model `chat_engine`; whoever carries the arrays is not known here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trireme_llm.errors import InvalidRequest
from trireme_llm.request import Grammar, GrammarKind, Output, Request, SamplingParams, Sink

Array = npt.NDArray[Any]
INPUT_IDS, CANCEL = "input_ids", "cancel"
MILLISECOND = 0.001  # seconds


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of one request, without a batch dimension; -1: any length."""

    name: str
    datatype: str  # as the KServe protocol names it
    length: int = 1


SCALARS = (
    TensorSpec("max_tokens", "INT32"),
    TensorSpec("min_tokens", "INT32"),
    TensorSpec("temperature", "FP32"),
    TensorSpec("top_k", "INT32"),
    TensorSpec("top_p", "FP32"),
    TensorSpec("min_p", "FP32"),
    TensorSpec("presence_penalty", "FP32"),
    TensorSpec("frequency_penalty", "FP32"),
    TensorSpec("repetition_penalty", "FP32"),
    TensorSpec("seed", "INT64"),
    TensorSpec("n", "INT32"),
    TensorSpec("ignore_eos", "BOOL"),
    TensorSpec("logprobs", "INT32"),
)
LISTS = (
    TensorSpec("allowed_token_ids", "INT32", -1),
    TensorSpec("banned_token_ids", "INT32", -1),
    TensorSpec("stop_token_ids", "INT32", -1),
    TensorSpec("stop_sequences", "BYTES", -1),
)
# All optional: a request has either input_ids or cancel, the generation_id of a request that is to end.
INPUTS = (
    TensorSpec(INPUT_IDS, "INT32", -1),
    TensorSpec(CANCEL, "UINT64"),
    *SCALARS,
    *LISTS,
    TensorSpec("logit_bias_ids", "INT32", -1),
    TensorSpec("logit_bias", "FP32", -1),
    TensorSpec("grammar_kind", "BYTES"),
    TensorSpec("grammar", "BYTES"),
    TensorSpec("priority", "INT32"),
    TensorSpec("timeout_ms", "INT32"),
)
# finish_reason is empty until the last output of a choice; stop_token_id is -1 where no token ended it.
OUTPUTS = (
    TensorSpec("generation_id", "UINT64"),
    TensorSpec("choice", "INT32"),
    TensorSpec("output_ids", "INT32", -1),
    TensorSpec("trim_bytes", "INT32"),
    TensorSpec("finish_reason", "BYTES"),
    TensorSpec("stop_token_id", "INT32"),
    TensorSpec("num_input_tokens", "UINT32"),
    TensorSpec("num_output_tokens", "UINT32"),
    TensorSpec("num_cached_tokens", "UINT32"),
    TensorSpec("logprobs", "FP32", -1),
    TensorSpec("top_ids", "INT32", -1),  # as many for every token as were asked for, one token after the other
    TensorSpec("top_logprobs", "FP32", -1),
)


def request_from(arrays: Mapping[str, Array], sink: Sink) -> Request:
    """Raises InvalidRequest, naming the tensor and what it allows."""
    fields: dict[str, Any] = {}
    for spec in SCALARS:
        if spec.name in arrays:
            fields[spec.name] = _scalar(arrays, spec.name)
    for spec in LISTS:
        if spec.name in arrays:
            fields[spec.name] = tuple(arrays[spec.name].ravel().tolist())
    if INPUT_IDS not in arrays:
        raise InvalidRequest(f"{INPUT_IDS} is missing")
    return Request(
        prompt=tuple(arrays[INPUT_IDS].ravel().tolist()),
        sink=sink,
        sampling=SamplingParams(**fields, logit_bias=_logit_bias(arrays), grammar=_grammar(arrays)),
        priority=_scalar(arrays, "priority") if "priority" in arrays else 0,
        deadline=_deadline(arrays),
    )


def arrays_from(output: Output, generation_id: int, num_input_tokens: int) -> dict[str, Array]:
    """Every output tensor, by name."""
    top = [pair for logprobs in output.logprobs for pair in logprobs.top]
    reason = "" if output.finish_reason is None else output.finish_reason.value
    stop_token = -1 if output.stop_token_id is None else output.stop_token_id
    return {
        "generation_id": np.array([generation_id], dtype=np.uint64),
        "choice": np.array([output.choice], dtype=np.int32),
        "output_ids": np.array(output.token_ids, dtype=np.int32),
        "trim_bytes": np.array([output.trim_bytes], dtype=np.int32),
        "finish_reason": np.array([reason.encode()], dtype=np.object_),
        "stop_token_id": np.array([stop_token], dtype=np.int32),
        "num_input_tokens": np.array([num_input_tokens], dtype=np.uint32),
        "num_output_tokens": np.array([output.num_output_tokens], dtype=np.uint32),
        "num_cached_tokens": np.array([output.num_cached_tokens], dtype=np.uint32),
        "logprobs": np.array([logprobs.chosen for logprobs in output.logprobs], dtype=np.float32),
        "top_ids": np.array([token_id for token_id, _ in top], dtype=np.int32),
        "top_logprobs": np.array([logprob for _, logprob in top], dtype=np.float32),
    }


def cancelled_id(arrays: Mapping[str, Array]) -> int | None:
    """The generation that this request asks to end, if that is what it asks."""
    if CANCEL not in arrays:
        return None
    if len(arrays) > 1:
        raise InvalidRequest(f"{CANCEL} comes alone; found beside it: {', '.join(sorted(set(arrays) - {CANCEL}))}")
    return int(_scalar(arrays, CANCEL))


def _scalar(arrays: Mapping[str, Array], name: str) -> Any:
    array = arrays[name]
    if array.size != 1:
        raise InvalidRequest(f"{name} has {array.size} values; allowed: 1")
    return array.ravel()[0].item() if array.dtype != np.object_ else array.ravel()[0]


def _logit_bias(arrays: Mapping[str, Array]) -> dict[int, float]:
    ids, values = (arrays[name].ravel().tolist() if name in arrays else [] for name in ("logit_bias_ids", "logit_bias"))
    if len(ids) != len(values):
        raise InvalidRequest(f"logit_bias_ids has {len(ids)} values and logit_bias {len(values)}; allowed: as many")
    return dict(zip(ids, values, strict=True))


def _grammar(arrays: Mapping[str, Array]) -> Grammar | None:
    if "grammar" not in arrays and "grammar_kind" not in arrays:
        return None
    known = {kind.value.encode(): kind for kind in GrammarKind}
    kind = _scalar(arrays, "grammar_kind") if "grammar_kind" in arrays else b""
    if kind not in known or "grammar" not in arrays:
        raise InvalidRequest(f"grammar needs a grammar_kind of {', '.join(each.value for each in GrammarKind)}")
    try:
        return Grammar(known[kind], _scalar(arrays, "grammar").decode())
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"grammar is not UTF-8: {error}") from error


def _deadline(arrays: Mapping[str, Array]) -> float | None:
    if "timeout_ms" not in arrays:
        return None
    timeout_ms = _scalar(arrays, "timeout_ms")
    if timeout_ms <= 0:
        raise InvalidRequest(f"timeout_ms is {timeout_ms}; allowed: at least 1")
    return time.monotonic() + float(timeout_ms) * MILLISECOND
