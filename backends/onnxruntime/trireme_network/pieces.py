"""The runs that answer what is waiting, and how they are shared between streams. Knows no runtime."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

from trireme_triton.tensors import Inputs, Outputs

from trireme_network.pace import Extent

Item = TypeVar("Item")
Requests = dict[int, Inputs]  # by number, which may have gaps


class Piece(NamedTuple):
    """One run of the graph."""

    inputs: Inputs
    extent: Extent
    requests: frozenset[int] = frozenset()  # that have a part in it, by number
    is_rearranged: bool = False  # whether a row is not a request's own: shared with another, or longer

    @classmethod
    def alone(cls, inputs: Inputs) -> Piece:
        """Inputs as they are. What has no rows counts as one."""
        rows = max((len(values) for values in inputs.values() if values.ndim), default=1)
        return cls(inputs, Extent(rows, math.ceil(sum(values.size for values in inputs.values()) / max(1, rows))))

    @property
    def cost(self) -> int:
        """The same unit for all pieces of a batch."""
        return self.extent.rows * self.extent.row_items


class Batch(Protocol):
    """The requests of one execute, arranged into pieces."""

    @property
    def pieces(self) -> Sequence[Piece]: ...

    def answer(self, request: int, results: Sequence[Outputs]) -> Outputs | None:
        """A request's outputs, from the outputs of all pieces; `None` if it has no part in any."""
        ...


def busy_share(costs: Sequence[int], streams: int) -> float:
    """Which part of the streams' time is work if each takes the next piece when it is free, the dearest first."""
    loads = [0] * streams
    for cost in sorted(costs, reverse=True):
        heapq.heapreplace(loads, loads[0] + cost)
    return sum(costs) / (streams * max(*loads, 1))


def split_evenly(items: Sequence[Item], limit: int) -> list[Sequence[Item]]:
    """As few parts of at most `limit` items as there can be, of sizes as even as they can be."""
    count = math.ceil(len(items) / limit)
    bounds = [len(items) * part // count for part in range(count + 1)]
    return [items[begin:end] for begin, end in pairwise(bounds)]
