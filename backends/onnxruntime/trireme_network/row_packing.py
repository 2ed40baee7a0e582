"""Which texts share a row, and which rows run together: arithmetic on lengths. Knows no tensors.

A row holds several texts one after another; the graph keeps them apart by their segment numbers, so what is paid for
is the tail of a row, not the difference between texts. First-fit decreasing (Johnson, 1973) fills the rows. Rows of
equal length run as one batch, and few lengths occur, since a runtime prepares itself anew for every shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from trireme_network.pieces import split_evenly

ROW_TOKENS = 128  # of a row that texts share; longer ones only make the attention dearer
RUN_TOKENS = 16  # that cost about as much as one more run of the network
BATCH_TOKENS = 1024  # of a batch; larger ones are not faster, and leave less to share between streams


@dataclass(frozen=True)
class RowBatch:
    """Rows of one length that run together."""

    length: int
    rows: tuple[tuple[int, ...], ...]  # the texts in each row, by number, in order

    @property
    def tokens(self) -> int:
        return self.length * len(self.rows)


@dataclass
class _Row:
    capacity: int
    used: int = 0
    texts: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        """What is paid for: the capacity of a row that is nearly full, else no more than the texts need."""
        return self.capacity if self.used > self.capacity * 7 // 8 else rounded(self.used)


def rounded(length: int) -> int:
    """The length of the row for a text: at most an eighth longer, from a few dozen values."""
    step = max(8, 1 << max(0, (length - 1).bit_length() - 4))
    return math.ceil(length / step) * step


def pack(lengths: Sequence[int], streams: int) -> list[RowBatch]:
    """Batches that hold every text once, the largest first, of even sizes for so many streams.

    `lengths` are tokens, each at least 1.
    """
    rows = _rows(lengths)
    budget = min(BATCH_TOKENS, math.ceil(sum(row.length for row in rows) / streams))
    batches = []
    for length, same in _by_length(rows):
        texts = [tuple(row.texts) for row in same]
        batches += [RowBatch(length, tuple(part)) for part in split_evenly(texts, max(1, budget // length))]
    return sorted(batches, key=lambda batch: -batch.tokens)


def _by_length(rows: Sequence[_Row]) -> list[tuple[int, list[_Row]]]:
    """Rows that can run together, and their length: a little longer than a row needs if that saves a run."""
    groups: list[tuple[int, list[_Row]]] = []
    for length, same in groupby(sorted(rows, key=lambda row: -row.length), lambda row: row.length):
        shorter = list(same)
        if groups and (groups[-1][0] - length) * len(shorter) <= RUN_TOKENS:
            groups[-1][1].extend(shorter)
        else:
            groups.append((length, shorter))
    return groups


def _rows(lengths: Sequence[int]) -> list[_Row]:
    """Long texts get a row each; short ones fill what these leave, and then rows of their own."""
    order = sorted(range(len(lengths)), key=lambda text: -lengths[text])
    long = [text for text in order if lengths[text] > ROW_TOKENS]
    rows = [_Row(rounded(lengths[text]), lengths[text], [text]) for text in long]
    short = [text for text in order[len(long) :] if not _put(text, lengths[text], rows)]
    if not short:
        return rows
    tight = _first_fit(short, lengths, rounded(lengths[short[0]]))
    if all(row.used == row.capacity for row in tight):  # one run without padding: nothing is cheaper
        return rows + tight
    return rows + min(tight, _first_fit(short, lengths, ROW_TOKENS), key=_cost)


def _cost(rows: Sequence[_Row]) -> int:
    """What running the rows costs, in tokens; every run adds RUN_TOKENS."""
    return sum(length * len(same) + RUN_TOKENS for length, same in _by_length(rows))


def _first_fit(texts: Sequence[int], lengths: Sequence[int], capacity: int) -> list[_Row]:
    """Rows for these texts, the longest first, each put into the first row that has room for it."""
    rows: list[_Row] = []
    open_rows: list[_Row] = []  # those with room for the shortest text
    shortest = lengths[texts[-1]]
    for text in texts:
        if not _put(text, lengths[text], open_rows):
            rows.append(_Row(capacity, lengths[text], [text]))
            open_rows = [row for row in (*open_rows, rows[-1]) if row.capacity - row.used >= shortest]
    return rows


def _put(text: int, length: int, rows: Sequence[_Row]) -> bool:
    """Put a text into the first row with room, if there is one."""
    for row in rows:
        if row.capacity - row.used >= length:
            row.texts.append(text)
            row.used += length
            return True
    return False
