"""All that a client does between its caller and the wire, without doing any of it: no input, no output, no waiting.

Each operation is a generator of steps. It yields an `Ask` or a `Pause` and is sent the answer, or has the error thrown
in. `Client` and `AsyncClient` carry the steps out, so they cannot come to behave differently.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from trireme_client.batches import Batch, cut
from trireme_client.calls import Call, Describe, Infer, IsLive, IsReady, ListModels, MaxBatchSize, Tensors
from trireme_client.errors import DeadlineExceeded, InvalidInput, ServerUnavailable
from trireme_client.results import Health, ModelMetadata, ModelState
from trireme_client.retry import RetryBudget, RetryPolicy
from trireme_client.tasks import Item, Payload, Result, Task

T = TypeVar("T")


@dataclass(frozen=True)
class Ask:
    """Send this to the server and come back with the answer."""

    call: Call
    timeout_s: float


@dataclass(frozen=True)
class Pause:
    """Wait."""

    seconds: float


Steps: TypeAlias = Generator[Ask | Pause, Any, T]


LONGEST_TIMEOUT_S = 1e9  # thirty years; gRPC takes much longer ones as over already


@dataclass
class Core:
    """The operations of one client; it remembers what models look like and how many retries are left."""

    timeout_s: float
    concurrency: int  # requests in flight
    retry: RetryPolicy
    clock: Callable[[], float] = time.monotonic
    budget: RetryBudget = field(init=False)
    models: dict[str, ModelMetadata] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s <= LONGEST_TIMEOUT_S or self.concurrency < 1:
            raise ValueError(
                f"timeout_s must be positive and at most {LONGEST_TIMEOUT_S}, and concurrency at least 1, "
                f"not {self.timeout_s} and {self.concurrency}"
            )
        self.budget = RetryBudget(self.retry.budget)

    def ask(self, call: Call) -> Steps[Any]:
        """One question, repeated within the timeout while the server is unavailable."""
        deadline = self.clock() + self.timeout_s
        for retry in range(1, self.retry.retries + 2):
            try:
                answer = yield Ask(call, max(0.001, deadline - self.clock()))
            except ServerUnavailable:
                delay = self.retry.delay_s(retry)
                last = retry > self.retry.retries or self.clock() + delay >= deadline
                if last or not self.budget.spend():
                    raise
                yield Pause(delay)
            else:
                self.budget.refund()
                return answer
        raise AssertionError("the last retry either returns or raises")

    def metadata(self, model: str) -> Steps[ModelMetadata]:
        described: ModelMetadata = yield from self.ask(Describe(model))
        max_batch_size: int = yield from self.ask(MaxBatchSize(model))
        self.models[model] = replace(described, max_batch_size=max_batch_size)
        return self.models[model]

    def model_for(self, task: Task[Item, Result], model: str) -> Steps[ModelMetadata]:
        """What the model takes. Raises `InvalidInput` if it is not a model for this task."""
        metadata = self.models.get(model) or (yield from self.metadata(model))
        taken = [tensor.name for tensor in metadata.inputs if tensor.datatype == "BYTES"]
        lacking = [name for name in task.inputs if name not in taken]
        missing = [name for name in task.outputs if name not in {tensor.name for tensor in metadata.outputs}]
        if lacking:
            found = _names(tensor.name for tensor in metadata.inputs)
            raise InvalidInput(f"model {model!r} has no BYTES input {_names(lacking)}; it has {found}")
        if missing:
            given = _names(tensor.name for tensor in metadata.outputs)
            raise InvalidInput(f"model {model!r} has no output {_names(missing)}; it has {given}")
        return metadata

    def jobs(
        self, task: Task[Item, Result], model: ModelMetadata, items: Iterable[Item]
    ) -> Iterator[Steps[list[Result | InvalidInput]]]:
        """One job per request. Together, in this order, they give one outcome per item."""
        for batch in cut(task, items, max(1, model.max_batch_size)):
            yield _refused(batch) if isinstance(batch, InvalidInput) else self.outcomes(task, model, batch)

    def outcomes(
        self, task: Task[Item, Result], model: ModelMetadata, batch: Batch
    ) -> Steps[list[Result | InvalidInput]]:
        """The results of a batch. If the server refuses it, its items are sent one by one to find the bad ones."""
        try:
            return list((yield from self.infer(task, model, batch.payloads)))
        except InvalidInput as error:
            self.models.pop(model.name, None)  # perhaps the model was replaced by one that takes something else
            if len(batch.payloads) == 1:
                return [InvalidInput(error.message, batch.start)]
        singles: list[Result | InvalidInput] = []
        for index, payload in enumerate(batch.payloads, batch.start):
            singles += yield from self.outcomes(task, model, Batch(index, (payload,)))
        return singles

    def infer(
        self, task: Task[Item, Result], model: ModelMetadata, payloads: tuple[Payload, ...]
    ) -> Steps[list[Result]]:
        columns = zip(task.inputs, zip(*payloads, strict=True), strict=True)
        inputs = {name: _tensor(model, name, column) for name, column in columns}
        call = Infer(model.name, inputs, task.outputs)
        outputs: Tensors = yield from self.ask(call)
        if model.max_batch_size == 0:
            outputs = {name: array[np.newaxis] for name, array in outputs.items()}
        return list(task.parse(outputs))

    def list_models(self) -> Steps[list[ModelState]]:
        states: list[ModelState] = yield from self.ask(ListModels())
        return states

    def health(self) -> Steps[Health]:
        live: bool = yield Ask(IsLive(), self.timeout_s)
        ready: bool = yield Ask(IsReady(), self.timeout_s)
        return Health(live, ready)

    def ready(self) -> Steps[bool]:
        """Asked once, not retried: whoever asks wants to know how it is now."""
        try:
            answer: bool = yield Ask(IsReady(), self.timeout_s)
        except (ServerUnavailable, DeadlineExceeded):
            return False
        return answer


def listed(items: Iterable[Item]) -> Iterable[Item]:
    """Refuses one text where a list of texts is meant: iterating over it would send its characters."""
    if isinstance(items, str | bytes):
        raise TypeError("expected a list of items; for one item pass [item] and take [0] of the result")
    return items


def pairs_to_rank(query: str, documents: Iterable[str], top_k: int | None) -> list[tuple[str, str]]:
    """The query with each document, before anything is sent. Raises `InvalidInput` if `top_k` asks for none."""
    if top_k is not None and top_k < 1:
        raise InvalidInput(f"top_k must be at least 1, not {top_k}; leave it out to get every document")
    return [(query, document) for document in listed(documents)]


def _refused(error: InvalidInput) -> Steps[list[Any]]:
    return [error]
    yield  # makes this a generator, like every job


def _tensor(model: ModelMetadata, name: str, items: tuple[bytes, ...]) -> np.ndarray[Any, Any]:
    """The items in the shape the model takes: an element each, with or without a batch dimension."""
    (shape,) = (tensor.shape for tensor in model.inputs if tensor.name == name)
    item_shape = shape[1:] if model.max_batch_size else shape
    data = np.empty(len(items), dtype=object)
    data[:] = items
    batch_shape = (len(items),) if model.max_batch_size else ()
    return data.reshape(*batch_shape, *(1 for _ in item_shape))


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
