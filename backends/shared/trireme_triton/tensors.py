"""Requests of Triton's Python backend become NumPy arrays, and arrays or refusals become its responses.

Together with `metrics` and the `model.py` of each backend the only module that knows `triton_python_backend_utils`,
which exists inside a stub only: it is imported when first used, so that everything else can be tested without Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Inputs = Mapping[str, Array]  # of one request; an optional input that was left out is absent
Outputs = Mapping[str, Array]
Given = TypeVar("Given")
Result = TypeVar("Result")


class Tensor(Protocol):
    """As much of `pb_utils.Tensor` as is used here."""

    def name(self) -> str: ...
    def as_numpy(self) -> Array: ...


class Request(Protocol):
    """As much of `pb_utils.InferenceRequest` as is used here."""

    def inputs(self) -> Sequence[Tensor]: ...


class InvalidRequest(Exception):
    """A request that cannot be answered, by its caller's fault. The text is written for the caller.

    Attributes:
        reason: one or two words from a small fixed set, the label of the error counter.
    """

    def __init__(self, message: str, *, reason: str = "invalid") -> None:
        super().__init__(message)
        self.reason = reason


Answer: TypeAlias = Outputs | InvalidRequest


def read_inputs(request: Request) -> dict[str, Array]:
    """The tensors of one Triton request by name. BYTES become object arrays of `bytes`."""
    return {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}


def respond(answer: Answer) -> object:
    """The Triton response for one request: its output tensors, or an error with the code INVALID_ARG."""
    import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

    if isinstance(answer, InvalidRequest):
        error = pb_utils.TritonError(str(answer), pb_utils.TritonError.INVALID_ARG)
        return pb_utils.InferenceResponse(error=error)
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, values) for name, values in answer.items()])


def answer_together(
    requests: Sequence[Request], answer: Callable[[Sequence[Inputs]], Sequence[Answer]]
) -> list[object]:
    """One response per request, made in one call of `answer`; a bad request's outputs are a refusal."""
    return [respond(outputs) for outputs in answer([read_inputs(request) for request in requests])]


def or_refusal(call: Callable[[Given], Result], given: Given) -> Result | InvalidRequest:
    """What `call` gives or, if it refuses what is given, the refusal as a value."""
    try:
        return call(given)
    except InvalidRequest as refusal:
        return refusal


def bytes_column(name: str, values: Array) -> list[bytes]:
    """The items of a BYTES input of shape [batch, 1].

    Raises:
        InvalidRequest: another shape or type, or an empty batch.
    """
    if values.dtype != np.object_ or values.ndim != 2 or values.shape[1] != 1 or not values.shape[0]:
        raise InvalidRequest(
            f"input {name!r} has shape {list(values.shape)}; it must be BYTES [batch, 1] with at least one item",
            reason="shape",
        )
    return values[:, 0].tolist()  # type: ignore[no-any-return]
