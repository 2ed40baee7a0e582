"""Cuts a stream of items into the requests that carry them. Reads items only as far as the next request needs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trireme_client.errors import InvalidInput
from trireme_client.tasks import Item, Payload, Result, Task

MAX_REQUEST_BYTES = 16 << 20  # a batch of large images is cut earlier than the model's batch size


@dataclass(frozen=True)
class Batch:
    """Neighbouring items of the caller's list, encoded: the first is item number `start`."""

    start: int
    payloads: tuple[Payload, ...]


def cut(
    task: Task[Item, Result], items: Iterable[Item], max_items: int, max_bytes: int = MAX_REQUEST_BYTES
) -> Iterator[Batch | InvalidInput]:
    """Batches in the order of the items. An item that cannot be encoded comes as its error, in its place."""
    start, payloads, size = 0, list[Payload](), 0
    for index, item in enumerate(items):
        payload = _encode(task, index, item)
        full = len(payloads) == max_items or isinstance(payload, InvalidInput) or size + _size(payload) > max_bytes
        if payloads and full:
            yield Batch(start, tuple(payloads))
            payloads, size = [], 0
        if isinstance(payload, InvalidInput):
            yield payload
            continue
        start = start if payloads else index
        payloads.append(payload)
        size += _size(payload)
    if payloads:
        yield Batch(start, tuple(payloads))


def _size(payload: Payload) -> int:
    return sum(map(len, payload))


def _encode(task: Task[Item, Result], index: int, item: Item) -> Payload | InvalidInput:
    try:
        return task.encode(item)
    except InvalidInput as error:
        return InvalidInput(error.message, index)
