"""The runs that answer what is waiting, and how they are shared between streams. Knows no runtime."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeVar

from trireme_triton.tensors import Inputs, Outputs

Item = TypeVar("Item")
Requests = dict[int, Inputs]  # by number, which may have gaps


@dataclass(frozen=True)
class Piece:
    """One run of the graph."""

    inputs: Inputs
    cost: int  # in any unit that is the same for all pieces of a batch
    requests: frozenset[int]  # that have a part in it, by number


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
