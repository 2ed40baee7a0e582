"""Texts of any length share rows, told apart by segment numbers. Knows what the numbers mean, not how texts are placed.

One input of the graph carries segment numbers: 1, 2, ... for the tokens that belong together, 0 for padding. The graph
lets tokens attend within their segment only and gives one output row per segment, zeros for numbers that are absent,
or one per token. So every segment of every request can move to another row and number, and its outputs be carried back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from trireme_triton.tensors import Array, Inputs, InvalidRequest, Outputs

from trireme_network.pace import Extent
from trireme_network.pieces import Piece, Requests
from trireme_network.row_packing import RowBatch, pack

MAX_SEGMENTS = 1 << 14  # in the answer to one request: 64 texts of 256 windows; absent ones take room in it too


@dataclass(frozen=True)
class SegmentRules:
    """What a graph takes."""

    numbers: str  # the input that carries segment numbers
    longest: int | None = None  # tokens of a segment
    per_token: bool = False  # outputs are [batch, length, ...], not [batch, segments, ...]


class Segment(NamedTuple):
    """Tokens that only attend to each other."""

    request: int
    row: int
    number: int
    tokens: slice | Array  # their places in the row
    length: int


class _Place(NamedTuple):
    """Where a segment is: a row of a piece, which of the segments in it, and its tokens there."""

    segment: Segment
    piece: int
    row: int
    rank: int
    tokens: slice


class PackedSegments:
    """A `Batch` whose rows hold segments of any request.

    `segments` are all that `find_segments` found in the requests.
    """

    def __init__(self, requests: Requests, rules: SegmentRules, segments: Sequence[Segment], streams: int) -> None:
        self._requests = requests
        self._numbers = rules.numbers
        self._per_token = rules.per_token
        self._segments = segments
        self._places: dict[int, list[_Place]] = defaultdict(list)  # of every request's segments
        batches = pack([segment.length for segment in segments], streams)
        self.pieces = [self._lay_out(number, batch) for number, batch in enumerate(batches)]

    def answer(self, request: int, results: Sequence[Outputs]) -> Outputs | None:
        places = self._places[request]
        if not places:
            return None
        rows, length = self._requests[request][self._numbers].shape
        shape = (rows, length if self._per_token else max(place.segment.number for place in places))
        outputs = {}
        for name, values in results[places[0].piece].items():
            outputs[name] = np.zeros(shape + values.shape[2:], values.dtype)
            for place in places:
                self._carry_back(place, results[place.piece][name], outputs[name])
        return outputs

    def _carry_back(self, place: _Place, values: Array, output: Array) -> None:
        segment = place.segment
        if self._per_token:
            output[segment.row, segment.tokens] = values[place.row, place.tokens]
        else:
            output[segment.row, segment.number - 1] = values[place.row, place.rank]

    def _lay_out(self, number: int, batch: RowBatch) -> Piece:
        """The arrays of a batch: the segments one after another, renumbered from 1, then zeros."""
        first = self._requests[self._segments[batch.rows[0][0]].request]
        arrays = {name: np.zeros((len(batch.rows), batch.length), values.dtype) for name, values in first.items()}
        owners = set()
        for row, texts in enumerate(batch.rows):
            end = 0
            for rank, text in enumerate(texts):
                segment = self._segments[text]
                begin, end = end, end + segment.length
                for name, values in self._requests[segment.request].items():
                    arrays[name][row, begin:end] = values[segment.row, segment.tokens]
                arrays[self._numbers][row, begin:end] = rank + 1
                self._places[segment.request].append(_Place(segment, number, row, rank, slice(begin, end)))
                owners.add(segment.request)
        is_rearranged = any([self._segments[text].length for text in texts] != [batch.length] for texts in batch.rows)
        return Piece(arrays, Extent(len(batch.rows), batch.length * len(arrays)), frozenset(owners), is_rearranged)


def find_segments(request_number: int, request: Inputs, rules: SegmentRules) -> list[Segment]:
    """The segments of one request.

    The input `rules.numbers`, (rows, length), holds the segment numbers; those below 1 are padding.

    Raises:
        InvalidRequest: the inputs are not tokens in rows, all alike, with numbers that such rows can hold, or a segment
            is too long.
    """
    segments = _read_segments(request_number, request, rules.numbers)
    if rules.longest is not None:
        for segment in segments:
            if segment.length > rules.longest:
                raise InvalidRequest(
                    f"input {rules.numbers!r}, row {segment.row}: a segment of {segment.length} tokens; "
                    f"this network takes at most {rules.longest}",
                    reason="too_long",
                )
    return segments


def _read_segments(request_number: int, request: Inputs, numbers: str) -> list[Segment]:
    mask = request[numbers]
    for name, values in request.items():
        if values.shape != mask.shape:
            raise InvalidRequest(
                f"input {name!r} has shape {list(values.shape)}; it must be {list(mask.shape)}, that of {numbers!r}",
                reason="shape",
            )
    rows, length = mask.shape
    if (mask == 1).all():
        return [Segment(request_number, row, 1, slice(0, length), length) for row in range(rows)]
    largest, allowed = mask.max(), min(length, MAX_SEGMENTS // rows)
    if largest > allowed:
        raise InvalidRequest(
            f"input {numbers!r} has the segment number {largest} in {rows} rows of {length} tokens; at most {allowed} "
            f"is allowed: one for each token, and {MAX_SEGMENTS} for all rows together",
            reason="segments",
        )
    return [segment for row in range(rows) for segment in _in_row(request_number, row, mask[row])]


def _in_row(request: int, row: int, mask: Array) -> Iterator[Segment]:
    for number in np.unique(mask[mask > 0]):
        places = np.flatnonzero(mask == number)
        begin, end = int(places[0]), int(places[-1]) + 1
        tokens = slice(begin, end) if end - begin == len(places) else places
        yield Segment(request, row, int(number), tokens, len(places))
