"""Where the tokens of a text stand in it: characters (Unicode code points) of the text as it was sent.

A row of spans, beside the row of ids, is (length, 3): a token's first character, the one after its last, and the
number of its word. Tokens that stand nowhere have -1: special tokens, padding, lone spaces, and those that another of
the text's windows answers for.
"""

from __future__ import annotations

import unicodedata

import numpy as np
from tokenizers import Encoding
from trireme_triton.tensors import Array

from trireme_stages.windows import WindowPlan

NOWHERE = -1
WIDTH = 3


def row_spans(text: str, encoding: Encoding, plan: WindowPlan) -> Array:
    """(tokens of all windows, 3), INT32: the spans beside the ids that `plan` splits `encoding` into."""
    before, after = len(plan.prefix), len(plan.suffix)
    spans = np.array(_spans(text, encoding, before, after), np.int32).reshape(-1, WIDTH)
    parts = []
    for content, own in zip(plan.contents(len(spans)), plan.answers(len(spans)), strict=True):
        part = np.full((before + len(content) + after, WIDTH), NOWHERE, np.int32)
        place = before + own.start - content.start
        part[place : place + len(own)] = spans[own.start : own.stop]
        parts.append(part)
    return np.concatenate(parts)


def _spans(text: str, encoding: Encoding, before: int, after: int) -> list[tuple[int, int, int]]:
    """Of every token but the special ones around the text."""
    own = slice(before, len(encoding.ids) - after)
    offsets, words = encoding.offsets[own], encoding.word_ids[own]
    next_starts = (*(start for start, _ in offsets[1:]), len(text))
    return [
        _span(text, *place, NOWHERE if word is None else word, next_start)
        for place, word, next_start in zip(offsets, words, next_starts, strict=False)  # of no token there is no next
    ]


def _span(text: str, start: int, end: int, word: int, next_start: int) -> tuple[int, int, int]:
    """Spaces at either end are no part of it; the marks after a letter are, which some tokenizers take away."""
    piece = text[start:end]
    visible = piece.strip()
    if not visible:
        return NOWHERE, NOWHERE, NOWHERE
    start += piece.index(visible)
    end = start + len(visible)
    while end < next_start and unicodedata.category(text[end]).startswith("M"):
        end += 1
    return start, end, word
