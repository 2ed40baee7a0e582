"""What the engine's requests, sinks and telemetry are under Triton's Python backend. Nothing else touches it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # it exists in stubs only
from trireme_llm.errors import EngineStopped, InvalidRequest
from trireme_llm.request import FinishReason, Output
from trireme_llm.telemetry import EngineState
from trireme_llm.tensors import INPUTS, Array, arrays_from

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
CANCEL_CHECK_S = 0.02  # asking Triton costs a round trip, and Triton itself takes longer to notice
STATE_EVERY_S = 0.5
SECONDS = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]


class TritonSender(Protocol):
    """pb_utils.InferenceResponseSender"""

    def send(self, response: object = None, flags: int = 0) -> None: ...

    def is_cancelled(self) -> bool: ...


class TritonRequest(Protocol):
    """pb_utils.InferenceRequest"""

    def get_response_sender(self) -> TritonSender: ...


def input_arrays(request: TritonRequest) -> dict[str, Array]:
    """The inputs that are there, by name."""
    tensors = ((spec.name, pb_utils.get_input_tensor_by_name(request, spec.name)) for spec in INPUTS)
    return {name: tensor.as_numpy() for name, tensor in tensors if tensor is not None}


def error_response(error: Exception) -> object:
    """INVALID_ARG for the caller's fault, UNAVAILABLE for an engine that has ended, INTERNAL for the rest."""
    codes = {InvalidRequest: pb_utils.TritonError.INVALID_ARG, EngineStopped: pb_utils.TritonError.UNAVAILABLE}
    code = codes.get(type(error), pb_utils.TritonError.INTERNAL)
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), code))


class ResponseSink:
    """Sends a request's outputs to whoever asked Triton, and exactly one final response."""

    def __init__(self, sender: TritonSender, generation_id: int, on_end: Callable[[], object]) -> None:
        self._sender = sender
        self._generation_id = generation_id
        self._on_end = on_end
        self._num_input_tokens = 0
        self._choices_left = 1
        self._cancelled = False  # set by whichever thread learns of it, never unset
        self._next_check_s = 0.0

    def begin(self, num_input_tokens: int, num_choices: int) -> None:
        """Before the request is handed over."""
        self._num_input_tokens = num_input_tokens
        self._choices_left = num_choices

    def cancel(self) -> None:
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        now = time.monotonic()
        if not self._cancelled and now >= self._next_check_s:
            self._next_check_s = now + CANCEL_CHECK_S
            self._cancelled = self._sender.is_cancelled()
        return self._cancelled

    def emit(self, output: Output) -> None:
        if self._choices_left == 0:
            return  # another choice has failed, and its error was the final response
        response = self._response(output)
        if output.finish_reason is not None:
            self._choices_left = 0 if output.error is not None else self._choices_left - 1
        if self._choices_left == 0:
            self._on_end()
        self._sender.send(response, flags=FINAL if self._choices_left == 0 else 0)

    def _response(self, output: Output) -> object:
        if output.error is not None:
            return error_response(output.error)
        if output.finish_reason is FinishReason.CANCELLED and self._choices_left == 1:
            message = f"cancelled after {output.num_output_tokens} tokens"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, pb_utils.TritonError.CANCELLED))
        arrays = arrays_from(output, self._generation_id, self._num_input_tokens)
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in arrays.items()])


class TritonTelemetry:
    """The engine's metrics on Triton's metrics endpoint. Families are kept: their metrics would die with them."""

    def __init__(self, model: str) -> None:
        self._labels = {"model": model}
        self._families: list[pb_utils.MetricFamily] = []
        self._queue = self._histogram("queue", "from arrival to the first step")
        self._first = self._histogram("time_to_first_token", "from arrival to the first token")
        self._next = self._histogram("inter_token", "between tokens of one choice")
        self._e2e = self._histogram("e2e", "from arrival to the last token")
        self._prompt = self._counter("prompt_tokens_total", "tokens of prompts")
        self._generated = self._counter("generated_tokens_total", "tokens generated")
        requests = self._family("requests_total", "choices ended, by reason", pb_utils.MetricFamily.COUNTER)
        self._requests = {r: requests.Metric(labels={**self._labels, "finish_reason": r.value}) for r in FinishReason}
        blocks = self._family("kv_blocks", "blocks of the cache, by state", pb_utils.MetricFamily.GAUGE)
        self._blocks = {state: blocks.Metric(labels={**self._labels, "state": state}) for state in ("held", "free")}
        self._running = self._gauge("running", "choices that run")
        self._waiting = self._gauge("waiting", "choices that wait")
        self._preemptions = self._counter("preemptions_total", "choices whose blocks were taken for another")
        self._hits = self._counter("prefix_cache_hit_tokens_total", "prompt tokens found in the cache")
        self._queries = self._counter("prefix_cache_query_tokens_total", "prompt tokens looked up in the cache")
        self._last = EngineState(
            running=0,
            waiting=0,
            blocks_held=0,
            blocks_free=0,
            preemptions=0,
            prefix_query_tokens=0,
            prefix_hit_tokens=0,
        )
        self._next_state_s = 0.0

    def started(self, queue_s: float) -> None:
        self._queue.observe(queue_s)

    def first_token(self, since_arrival_s: float) -> None:
        self._first.observe(since_arrival_s)

    def next_token(self, since_last_s: float) -> None:
        self._next.observe(since_last_s)

    def finished(self, reason: FinishReason, e2e_s: float, prompt_tokens: int, output_tokens: int) -> None:
        self._e2e.observe(e2e_s)
        self._prompt.increment(prompt_tokens)
        self._generated.increment(output_tokens)
        self._requests[reason].increment(1)

    def stepped(self, state: EngineState) -> None:
        """Not every step: each value costs a round trip to the server. The last step is never left out."""
        now = time.monotonic()
        if now < self._next_state_s and state.running + state.waiting > 0:
            return
        self._next_state_s = now + STATE_EVERY_S
        self._running.set(state.running)
        self._waiting.set(state.waiting)
        self._blocks["held"].set(state.blocks_held)
        self._blocks["free"].set(state.blocks_free)
        self._preemptions.increment(state.preemptions - self._last.preemptions)
        self._hits.increment(state.prefix_hit_tokens - self._last.prefix_hit_tokens)
        self._queries.increment(state.prefix_query_tokens - self._last.prefix_query_tokens)
        self._last = state

    def _family(self, name: str, description: str, kind: object) -> pb_utils.MetricFamily:
        family = pb_utils.MetricFamily(name=f"trireme_llm_{name}", description=description, kind=kind)
        self._families.append(family)
        return family

    def _histogram(self, name: str, description: str) -> pb_utils.Metric:
        family = self._family(f"{name}_seconds", description, pb_utils.MetricFamily.HISTOGRAM)
        return family.Metric(labels=self._labels, buckets=SECONDS)

    def _counter(self, name: str, description: str) -> pb_utils.Metric:
        return self._family(name, description, pb_utils.MetricFamily.COUNTER).Metric(labels=self._labels)

    def _gauge(self, name: str, description: str) -> pb_utils.Metric:
        return self._family(name, description, pb_utils.MetricFamily.GAUGE).Metric(labels=self._labels)
