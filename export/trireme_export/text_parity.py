"""Cases that show whether a text graph equals its original: scripts, shapes never traced, padding, company, packing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trireme_export.assembly import ParityCase
from trireme_export.text_original import Original

SEED = 20_24
UNTRACED_SHAPES = ((1, 1), (3, 17), (2, 512), (5, 33))
LONGEST = 2048  # tokens of a row: memory grows with their square
Ids = Sequence[int]


def text_parity_cases(
    original: Original, texts: Sequence[Ids], vocabulary: int, max_length: int
) -> Iterator[ParityCase]:
    """`texts` are token ids of real texts with special tokens. Every row is computed alone by the original."""
    expected = original.rows(texts)
    for index, ids in enumerate(texts):
        yield _case(f"text {index} alone", [ids], expected[index][None, None])
    yield _case("all texts, padded on the right", texts, expected[:, None])
    yield _case("all texts, padded on the left", texts, expected[:, None], left=True)
    yield _packed("all texts packed into one row", texts, expected)
    yield _packed("all texts packed, the last first", texts[::-1], expected[::-1])
    random = np.random.default_rng(SEED)
    longer = ((1, min(max_length, LONGEST)),) if max_length > 512 else ()
    for batch, length in UNTRACED_SHAPES + longer:
        sequences = random.integers(0, vocabulary, (batch, min(length, max_length))).tolist()
        rows = original.rows(sequences)
        yield _case(f"random ids of shape ({batch}, {length})", sequences, rows[:, None])
        if batch > 1:
            yield _packed(f"random ids of {batch} times {length} packed", sequences, rows)
    yield _uneven(texts, expected)


def _case(name: str, rows: Sequence[Ids], expected: NDArray[np.float64], *, left: bool = False) -> ParityCase:
    """One text per row, padded to the longest."""
    length = max(map(len, rows))
    input_ids = np.zeros((len(rows), length), np.int64)
    attention_mask = np.zeros((len(rows), length), np.int64)
    for row, ids in enumerate(rows):
        place = slice(length - len(ids), length) if left else slice(0, len(ids))
        input_ids[row, place] = ids
        attention_mask[row, place] = 1
    return ParityCase(name=name, inputs={"input_ids": input_ids, "attention_mask": attention_mask}, expected=expected)


def _packed(name: str, texts: Sequence[Ids], expected: NDArray[np.float64]) -> ParityCase:
    """All texts side by side in one row, with seven tokens of padding at its end."""
    input_ids = np.concatenate([*map(np.asarray, texts), np.zeros(7, np.int64)])
    numbers = np.repeat(np.arange(1, len(texts) + 1), [len(ids) for ids in texts])
    attention_mask = np.concatenate([numbers, np.zeros(7, np.int64)])
    return ParityCase(
        name=name,
        inputs={"input_ids": input_ids[None].astype(np.int64), "attention_mask": attention_mask[None]},
        expected=expected[None],
    )


def _uneven(texts: Sequence[Ids], expected: NDArray[np.float64]) -> ParityCase:
    """Two rows with one and two segments: the row of the segment that the first does not have is zero."""
    one, two, three = texts[:3]
    length = max(len(one), len(two) + len(three))
    input_ids = np.zeros((2, length), np.int64)
    attention_mask = np.zeros((2, length), np.int64)
    input_ids[0, : len(one)], attention_mask[0, : len(one)] = one, 1
    packed = [*two, *three]
    input_ids[1, : len(packed)] = packed
    attention_mask[1, : len(two)], attention_mask[1, len(two) : len(packed)] = 1, 2
    rows = np.zeros((2, 2, expected.shape[1]))
    rows[0, 0], rows[1, 0], rows[1, 1] = expected[0], expected[1], expected[2]
    return ParityCase(
        name="rows of one and of two segments",
        inputs={"input_ids": input_ids, "attention_mask": attention_mask},
        expected=rows,
    )
