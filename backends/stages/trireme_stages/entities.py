"""The stage `entities`: the logits of a text's tokens become labelled spans of its characters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from trireme_triton.tensors import Answer, Array, Inputs, InvalidRequest

from trireme_stages.scores import read_labels, scores_of
from trireme_stages.segments import check_finite
from trireme_stages.stage import Model, Signature, answer_parsed
from trireme_stages.tagging import Scheme, read_tags, runs
from trireme_stages.texts import read_texts
from trireme_stages.token_spans import WIDTH

Aggregation = Literal["simple", "first", "average", "max"]


@dataclass(frozen=True, kw_only=True)
class EntitiesParameters:
    """`aggregation` says what is given a label, and by which scores. The names are those of transformers' pipeline:

    - `simple`: every token, by its own; tokens that share a character (bytes of an emoji) by those of the first,
    - `first`, `average`, `max`: every word of the tokenizer, by the scores of its first token, by the mean of its
      tokens', by those of the token that is surest.

    `outside` is the label of what is in no span; the labels may lack it.
    """

    labels: str = "labels.json"
    scheme: Scheme = "bio"
    aggregation: Aggregation = "simple"
    outside: str = "O"

    def signature(self) -> Signature:
        """C is the number of labels."""
        return Signature(
            inputs={
                "logits": ("TYPE_FP32", (-1, "C")),
                "token_spans": ("TYPE_INT32", (-1, WIDTH)),
                "text": ("TYPE_STRING", (1,)),
            },
            outputs={"entities": ("TYPE_STRING", (1,))},
        )


@dataclass(frozen=True)
class _Tokens:
    """The tokens of one text that stand somewhere in it, in their order."""

    text: str
    logits: Array  # (tokens, labels)
    spans: Array  # (tokens, 3)


class Entities:
    """Softmax over the labels of a token; the score of an entity is the mean of what was given its label."""

    Parameters = EntitiesParameters

    def __init__(self, parameters: EntitiesParameters, model: Model) -> None:
        self._aggregation = parameters.aggregation
        labels = [label.decode() for label in read_labels(model.folder, parameters.labels, model.sizes["C"])]
        self._tags = read_tags(labels, parameters.scheme, parameters.outside)

    def answer(self, batch: Sequence[Inputs]) -> list[Answer]:
        """One JSON list for every text."""
        return answer_parsed(batch, self._read, self._extract)

    def _read(self, inputs: Inputs) -> list[_Tokens]:
        texts = read_texts("text", inputs)
        logits, spans = inputs["logits"], inputs["token_spans"]
        if logits.ndim != 3 or logits.shape[2] != len(self._tags) or len(logits) != len(texts):
            found, wanted = list(logits.shape), f"[{len(texts)}, tokens, {len(self._tags)}]"
            raise InvalidRequest(f"input 'logits' has shape {found}; it must be {wanted}", reason="shape")
        if spans.shape != (*logits.shape[:2], WIDTH):
            found, wanted = list(spans.shape), str([*logits.shape[:2], WIDTH])
            raise InvalidRequest(f"input 'token_spans' has shape {found}; it must be {wanted}", reason="shape")
        return [_placed(item, *row) for item, row in enumerate(zip(texts, logits, spans, strict=True))]

    def _extract(self, requests: Sequence[list[_Tokens]]) -> Iterator[Answer]:
        for texts in requests:
            rows = [[json.dumps(self._entities(tokens), ensure_ascii=False).encode()] for tokens in texts]
            yield {"entities": np.array(rows, np.object_)}

    def _entities(self, tokens: _Tokens) -> list[dict[str, Any]]:
        if not len(tokens.spans):
            return []
        firsts = _firsts(tokens.spans, self._aggregation)
        scores = _aggregated(scores_of("softmax", tokens.logits), firsts, self._aggregation)
        given, best = scores.argmax(axis=1), scores.max(axis=1)
        starts = np.minimum.reduceat(tokens.spans[:, 0], firsts)
        ends = np.maximum.reduceat(tokens.spans[:, 1], firsts)
        tags = [self._tags[label] for label in given]
        return [
            {
                "label": tags[run[0]].kind,
                "score": float(str(best[run].mean())),  # the shortest decimals that are this fp32 number
                "start": int(starts[run[0]]),
                "end": int(ends[run[-1]]),
                "text": tokens.text[starts[run[0]] : ends[run[-1]]],
            }
            for run in runs(tags)
        ]


def _placed(item: int, text: str, logits: Array, spans: Array) -> _Tokens:
    kept = spans[:, 0] >= 0
    spans = spans[kept]
    if len(spans) and ((spans[:, 0] >= spans[:, 1]).any() or spans[:, 1].max() > len(text)):
        raise InvalidRequest(
            f"input 'token_spans', item {item}: a span is empty, or ends after the {len(text)} characters of the text",
            reason="shape",
        )
    check_finite(f"input 'logits', item {item}", logits[kept])
    return _Tokens(text, logits[kept], spans)


def _firsts(spans: Array, aggregation: Aggregation) -> Array:
    """The first tokens of all that are given a label together."""
    if aggregation == "simple":
        new = spans[1:, 0] >= np.maximum.accumulate(spans[:-1, 1])
    else:
        new = spans[1:, 2] != spans[:-1, 2]
    return np.concatenate([[0], 1 + np.flatnonzero(new)])


def _aggregated(scores: Array, firsts: Array, aggregation: Aggregation) -> Array:
    """(tokens, labels) -> (firsts, labels)."""
    if aggregation == "average":
        counts = np.diff(firsts, append=len(scores))
        return np.add.reduceat(scores, firsts, axis=0) / counts[:, None].astype(np.float32)
    if aggregation == "max":
        groups = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(scores)))
        order = np.lexsort((-scores.max(axis=1), groups))
        return scores[order[firsts]]  # type: ignore[no-any-return]
    return scores[firsts]
