"""Golden samples of token classifiers: from strings to spans by the PyTorch original and plain Python."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Encoding

from trireme_export.assembly import EXACT, Difference, GoldenSample, bytes_tensor
from trireme_export.catalogue import Aggregation
from trireme_export.original_answers import softmax
from trireme_export.text_golden import TextReference, margin, score_difference, texts_tensor, windows_tensor
from trireme_export.text_original import Floats, split_into_windows
from trireme_export.token_labels import OUTSIDE, TokenLabelling

# Between the best label of a token and the next, and between the surest tokens of a word that have different labels:
# ten times what the parity gate lets pass.
MIN_LOGIT_MARGIN = 0.01
SURE = 1 - 1e-4  # beyond it a hundredth of a logit is hardly more than the rounding of a probability in fp32


class _Token(NamedTuple):
    """A token of a text, or several that are given one label."""

    start: int  # characters of the text
    end: int
    word: int | None
    scores: Floats  # (labels,)
    margin: float = math.inf  # by which its label is the one that is given


def entities_sample(
    reference: TextReference, texts: Sequence[str], labelling: TokenLabelling, measured: Difference = EXACT
) -> GoldenSample:
    """One request with `texts`.

    The entities are checked unless a token has two labels, or a word two tokens, that are so near each other that a
    permitted difference could change what is given.
    """
    split = [split_into_windows(reference.tokenizer, text, reference.windows) for text in texts]
    tokens = [_aggregated(text, _tokens(own, reference), labelling) for text, own in zip(texts, split, strict=True)]
    outputs = [windows_tensor([len(own) for own in split])]
    if min((token.margin for own in tokens for token in own), default=math.inf) > margin(MIN_LOGIT_MARGIN, measured):
        found = [json.dumps(_entities(text, own, labelling)) for text, own in zip(texts, tokens, strict=True)]
        near = {"json_max_abs": score_difference(measured)}
        outputs.insert(0, bytes_tensor("entities", [each.encode() for each in found], check=near))
    return GoldenSample(inputs=(texts_tensor(texts),), outputs=tuple(outputs))


def _tokens(windows: Sequence[Encoding], reference: TextReference) -> list[_Token]:
    """Every token of a text, with the scores of the window that shows most of the text around it."""
    best: dict[int, tuple[float, _Token]] = {}  # by the token's number in the text
    first = 0
    for number, window in enumerate(windows):
        scores = softmax(reference.original.row(window.ids))
        own = [place for place, is_special in enumerate(window.special_tokens_mask) if not is_special]
        for before, place in enumerate(own):
            left = before if number > 0 else math.inf
            right = len(own) - 1 - before if number + 1 < len(windows) else math.inf
            known = best.get(first + before)
            if known is None or min(left, right) > known[0]:
                token = _Token(*window.offsets[place], window.word_ids[place], scores[place])
                best[first + before] = (min(left, right), token)
        first += len(own) - reference.windows.overlap
    return [best[number][1] for number in sorted(best)]


def _aggregated(text: str, tokens: Sequence[_Token], labelling: TokenLabelling) -> list[_Token]:
    """What is given a label: tokens with a visible character (those that share one are one), or their words."""
    groups: list[list[_Token]] = []
    for token in tokens:
        start, end = _visible(text, token.start, token.end)
        if start == end:
            continue
        last = groups[-1] if groups else []
        is_simple = labelling.aggregation == "simple"
        if last and (start < max(each.end for each in last) if is_simple else token.word == last[-1].word):
            last.append(token._replace(start=start, end=end))
        else:
            groups.append([token._replace(start=start, end=end)])
    return list(_with_marks(text, [_as_one(group, labelling.aggregation) for group in groups]))


def _as_one(group: Sequence[_Token], aggregation: Aggregation) -> _Token:
    scores, surest = group[0].scores, math.inf
    if aggregation == "average":
        scores = np.mean([token.scores for token in group], axis=0)
    elif aggregation == "max":
        scores = max(group, key=lambda token: float(token.scores.max())).scores
        surest = _margin_of_the_surest(scores, group)
    start, end = min(token.start for token in group), max(token.end for token in group)
    return _Token(start, end, group[0].word, scores, min(surest, _margin(scores)))


def _visible(text: str, start: int, end: int) -> tuple[int, int]:
    places = [place for place in range(start, end) if not text[place].isspace()]
    return (places[0], places[-1] + 1) if places else (start, start)


def _with_marks(text: str, tokens: Sequence[_Token]) -> Iterator[_Token]:
    """A letter that lost its accents gets them back."""
    for number, token in enumerate(tokens, start=1):
        limit = tokens[number].start if number < len(tokens) else len(text)
        end = token.end
        while end < limit and unicodedata.category(text[end])[0] == "M":
            end += 1
        yield token._replace(end=end)


def _entities(text: str, tokens: Sequence[_Token], labelling: TokenLabelling) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    scores: list[float] = []
    is_open = False
    for token in tokens:
        label = labelling.labels[int(token.scores.argmax())]
        if label == OUTSIDE:
            is_open = False
            continue
        prefix, kind = ("I", label) if labelling.scheme == "plain" else (label[0], label[2:])
        if not is_open or prefix in "BSU" or found[-1]["label"] != kind:
            found.append({"label": kind, "score": 0.0, "start": token.start})
            scores = []
        scores.append(float(token.scores.max()))
        found[-1] |= {"score": sum(scores) / len(scores), "end": token.end}
        is_open = prefix not in "ESLU"
    return [entity | {"text": text[entity["start"] : entity["end"]]} for entity in found]


def _margin(scores: Floats) -> float:
    """Of the best label over the next, as their logits have it."""
    smallest = np.finfo(scores.dtype).tiny  # a probability may be too small to be any number but 0
    *_, second, best = np.log(np.clip(np.sort(scores), smallest, None)) if len(scores) > 1 else (-math.inf, 0.0)
    return float(best - second)


def _margin_of_the_surest(scores: Floats, group: Sequence[_Token]) -> float:
    """Of the surest token, which has these `scores`, over the surest one with another label; in log-odds."""
    others = [float(token.scores.max()) for token in group if token.scores.argmax() != scores.argmax()]
    surest, rival = np.clip([float(scores.max()), max(others, default=0.0)], np.finfo(float).tiny, SURE)
    return math.inf if not others else float(np.log(surest / (1 - surest)) - np.log(rival / (1 - rival)))
