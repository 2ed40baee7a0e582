"""Requests of equal shape become batches by stacking their rows. Asks nothing of the graph but a batch dimension."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

import numpy as np
from trireme_triton.tensors import Inputs, Outputs

from trireme_network.pace import Extent
from trireme_network.pieces import Piece, Requests, split_evenly

MAX_ROWS = 32  # of a piece; larger ones are not faster
# Of a piece, over all inputs; four photographs of 224 pixels. More are slower, since what layers pass on leaves the
# CPU's caches, and take memory that a process keeps.
MAX_ITEMS = 4 * 224 * 224 * 3
Row = tuple[int, int]  # a request and one of its rows, by number
Shape = tuple[tuple[str, tuple[int, ...]], ...]  # of a row of every input, by name


def largest_piece(row_items: int) -> int:
    """The most rows of so many items that run together."""
    return min(MAX_ROWS, max(1, MAX_ITEMS // row_items))


class StackedRows:
    """A `Batch` of whole rows."""

    def __init__(self, requests: Requests, streams: int) -> None:
        self._requests = requests
        groups: dict[Shape, list[Row]] = defaultdict(list)
        for number, request in requests.items():
            groups[_row_shape(request)] += [(number, row) for row in range(_row_count(request))]
        self._parts = self._split(list(groups.values()), streams)

    @cached_property
    def pieces(self) -> list[Piece]:
        return [
            Piece(self._stack(part), Extent(len(part), self._cost(part[:1])), frozenset(owner for owner, _ in part))
            for part in self._parts
        ]

    def answer(self, request: int, results: Sequence[Outputs]) -> Outputs:
        places = self._places[request]
        parts = {name: [results[piece][name][rows] for piece, rows in places] for name in results[places[0][0]]}
        return {name: part[0] if len(part) == 1 else np.concatenate(part) for name, part in parts.items()}

    @cached_property
    def _places(self) -> dict[int, list[tuple[int, slice]]]:
        """Of every request: the pieces that hold its rows, in order, and where."""
        places = defaultdict(list)
        for piece, part in enumerate(self._parts):
            for owner, rows in groupby(range(len(part)), key=lambda place: part[place][0]):
                first, *rest = rows
                places[owner].append((piece, slice(first, first + 1 + len(rest))))
        return places

    def _split(self, groups: Sequence[Sequence[Row]], streams: int) -> list[Sequence[Row]]:
        share = sum(map(self._cost, groups)) / streams
        parts: list[Sequence[Row]] = []
        for rows in groups:
            items = self._cost(rows[:1])
            parts += split_evenly(rows, min(largest_piece(items), math.ceil(share / items)))
        return parts

    def _cost(self, rows: Sequence[Row]) -> int:
        """The items of all inputs in these rows of equal shape."""
        request, _ = rows[0]
        return len(rows) * sum(int(values[0].size) for values in self._requests[request].values())

    def _stack(self, rows: Sequence[Row]) -> Inputs:
        owners = [self._requests[owner] for owner, _ in rows]
        return {
            name: np.stack([request[name][row] for request, (_, row) in zip(owners, rows, strict=True)])
            for name in owners[0]
        }


def _row_shape(request: Inputs) -> Shape:
    return tuple((name, values.shape[1:]) for name, values in sorted(request.items()))


def _row_count(request: Inputs) -> int:
    return len(next(iter(request.values())))
