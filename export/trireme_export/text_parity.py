"""Cases that show whether a text graph equals its original: scripts, shapes never traced, padding, company, packing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from trireme_export.assembly import Alone, Array, OriginalLayers, ParityCase
from trireme_export.text_original import Floats, Original, Tokenized

SEED = 20_24
UNTRACED_SHAPES = ((1, 1), (3, 17), (2, 512), (5, 33))
LONGEST = 2048  # tokens of a row: memory grows with their square


@dataclass(frozen=True)
class _Text:
    """Tokens, and what the original gives for them alone: (D,), or (length, labels) for every token."""

    tokens: Tokenized
    expected: Floats


def text_parity_cases(
    original: Original, texts: Sequence[Tokenized], long: Sequence[Tokenized], vocabulary: int, max_length: int
) -> Iterator[ParityCase]:
    """`texts` are real ones with special tokens, `long` windows of one. The original computes every row alone."""
    real = [_Text(tokens, original.row(*tokens)) for tokens in texts]
    for index, text in enumerate(real):
        yield _case(f"text {index} alone", [[text]])
    yield _case("all texts, padded on the right", [[text] for text in real])
    yield _case("all texts, padded on the left", [[text] for text in real], left=True)
    yield _case("all texts packed into one row", [real], padding=7)
    yield _case("all texts packed, the last first", [real[::-1]], padding=7)
    yield _case("windows of a long text", [[_Text(tokens, original.row(*tokens)) for tokens in long]])
    random = np.random.default_rng(SEED)
    longer = ((1, min(max_length, LONGEST)),) if max_length > 512 else ()
    for batch, length in UNTRACED_SHAPES + longer:
        shape = batch, min(length, max_length)
        sequences = random.integers(0, vocabulary, shape).tolist()
        types = [None] * batch if texts[0].types is None else random.integers(0, 2, shape).tolist()
        made_up = [_Text(tokens, original.row(*tokens)) for tokens in map(Tokenized, sequences, types)]
        yield replace(_case(f"random ids of shape ({batch}, {length})", [[text] for text in made_up]), is_real=False)
        if batch > 1:
            packed = _case(f"random ids of {batch} times {length} packed", [made_up], padding=7)
            yield replace(packed, is_real=False)
    yield _case("rows of one and of two segments", [[real[0]], real[1:3]])


def alone(tokens: Tokenized) -> Mapping[str, Array]:
    """The network's inputs for one text by itself."""
    return _case("", [[_Text(tokens, np.zeros(1))]]).inputs


def text_layers(original: Original) -> OriginalLayers:
    """Of every text of a case, however the rows hold them."""
    return OriginalLayers(root=original.modules, twins=original.twins, each=partial(_texts, original))


def _texts(original: Original, inputs: Mapping[str, Array]) -> Iterator[Alone]:
    numbers, types = inputs["attention_mask"], inputs.get("token_type_ids")
    for row, number in np.argwhere(np.ones((len(numbers), numbers.max()))):
        places = np.flatnonzero(numbers[row] == number + 1)
        if places.size:
            ids = inputs["input_ids"][row, places].tolist()
            own_types = None if types is None else types[row, places].tolist()
            part = partial(_part, shape=(*numbers.shape, numbers.max()), row=row, places=places, segment=number)
            yield Alone(run=partial(original.row, ids, own_types), part=part)


def _part(  # noqa: PLR0913 - where a text lies takes as many
    value: Array, own: Array, *, shape: tuple[int, int, int], row: int, places: Array, segment: int
) -> Array | None:
    """Of (batch, length, D) a text's tokens; of (batch, S, D), whose first two may be one, its row."""
    batch, length, segments = shape
    if own.shape[:2] == (1, len(places)) and own.ndim == 3:
        return value[row, places] if value.shape == (batch, length, own.shape[2]) else None
    if own.shape[0] != 1 or own.ndim != 2 or value.size != batch * segments * own.shape[1]:
        return None
    return value.reshape(batch, segments, -1)[row, segment]  # type: ignore[no-any-return]


def _case(name: str, rows: Sequence[Sequence[_Text]], *, left: bool = False, padding: int = 0) -> ParityCase:
    """The texts of each row side by side, all rows padded to `padding` tokens more than the longest.

    Expected are (rows, S, D), with zeros for the segments that a row does not have, or (rows, length, labels), with
    zeros for padding.
    """
    sizes = [sum(len(text.tokens.ids) for text in row) for row in rows]
    length = max(sizes) + padding
    input_ids, attention_mask, token_types = np.zeros((3, len(rows), length), np.int64)
    first = rows[0][0].expected
    of_tokens = first.ndim == 2
    expected = np.zeros((len(rows), length if of_tokens else max(map(len, rows)), first.shape[-1]))
    for row, (texts, size) in enumerate(zip(rows, sizes, strict=True)):
        end = length - size if left else 0
        for number, text in enumerate(texts, start=1):
            begin, end = end, end + len(text.tokens.ids)
            input_ids[row, begin:end] = text.tokens.ids
            token_types[row, begin:end] = text.tokens.types or 0
            attention_mask[row, begin:end] = number
            expected[row, slice(begin, end) if of_tokens else number - 1] = text.expected
    inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
    if rows[0][0].tokens.types is not None:
        inputs["token_type_ids"] = token_types
    return ParityCase(name=name, inputs=inputs, expected=expected)
