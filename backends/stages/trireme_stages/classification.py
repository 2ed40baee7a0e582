"""The stage `classification`: the logits of a text become a label and its score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from trireme_triton.parameters import InvalidParameter, parameter
from trireme_triton.tensors import Answer, Array, Inputs

from trireme_stages.scores import ScoreFunction, read_labels, scores_of
from trireme_stages.segments import Combine, Windows, joined, read_windows, split_requests
from trireme_stages.stage import Model, Signature, answer_parsed


@dataclass(frozen=True, kw_only=True)
class ClassificationParameters:
    """`threshold` and `positive_label` go together: that label is given exactly when its score reaches the threshold.

    `windows` combines the scores of a text's windows: `mean`, or `max`, which is
    - for `sigmoid` the largest score of each label,
    - for `softmax` the scores of one window, so that they still add up to 1: the window with the largest score of
      `positive_label` or, without one, with the largest score of any label. The first of equals.
    """

    function: ScoreFunction = "softmax"
    labels: str = "labels.json"
    threshold: float | None = parameter(None, minimum=0, maximum=1)
    positive_label: str | None = None
    windows: Combine = "max"

    def __post_init__(self) -> None:
        if (self.threshold is None) != (self.positive_label is None):
            raise InvalidParameter("parameters 'threshold' and 'positive_label' go together: give both or neither")

    def signature(self) -> Signature:
        """C is the number of labels."""
        return Signature(
            inputs={"logits": ("TYPE_FP32", (-1, "C")), "windows": ("TYPE_INT32", (1,))},
            outputs={
                "label": ("TYPE_STRING", (1,)),
                "score": ("TYPE_FP32", (1,)),
                "scores": ("TYPE_FP32", ("C",)),
            },
        )


class Classification:
    """Without a threshold the label with the largest score is given, the first of equals."""

    Parameters = ClassificationParameters

    def __init__(self, parameters: ClassificationParameters, model: Model) -> None:
        self._parameters = parameters
        self._labels = read_labels(model.folder, parameters.labels, model.sizes["C"])
        self._positive = _positive_index(parameters.positive_label, self._labels)

    def answer(self, batch: Sequence[Inputs]) -> list[Answer]:
        """All texts of all requests are computed as one array."""
        return answer_parsed(batch, self._windows, self._classify)

    def _windows(self, inputs: Inputs) -> Windows:
        return read_windows("logits", inputs, len(self._labels))

    def _classify(self, requests: Sequence[Windows]) -> Iterator[Answer]:
        windows = joined(requests)
        scores = self._combined(Windows(rows=scores_of(self._parameters.function, windows.rows), counts=windows.counts))
        given = self._given(scores)[:, None]
        score = np.take_along_axis(scores, given, axis=1)
        for own in split_requests(requests, self._labels[given], score, scores):
            yield dict(zip(("label", "score", "scores"), own, strict=True))

    def _combined(self, scores: Windows) -> Array:
        """(texts, labels)."""
        if self._parameters.windows == "mean" or self._parameters.function == "sigmoid":
            return scores.combined(self._parameters.windows)
        deciding = scores.rows.max(axis=1) if self._positive is None else scores.rows[:, self._positive]
        return scores.rows[_first_largest(deciding, scores)]

    def _given(self, scores: Array) -> Array:
        """(texts,): the index of the label that each text is given."""
        if self._positive is None:
            return scores.argmax(axis=1)  # type: ignore[no-any-return]
        others = scores.copy()
        others[:, self._positive] = -1  # below every score
        positive = scores[:, self._positive] >= np.float32(self._parameters.threshold)
        return np.where(positive, self._positive, others.argmax(axis=1))


def _first_largest(values: Array, windows: Windows) -> Array:
    """(texts,): of each text's windows the row where `values`, (windows,), is largest."""
    order = np.lexsort((-values, np.repeat(np.arange(len(windows.counts)), windows.counts)))
    return order[windows.starts]  # type: ignore[no-any-return]


def _positive_index(positive_label: str | None, labels: Array) -> int | None:
    if positive_label is None:
        return None
    found = np.flatnonzero(labels == positive_label.encode())
    if len(found) != 1 or len(labels) == 1:
        known = ", ".join(label.decode() for label in labels[:20])
        raise InvalidParameter(f"parameter 'positive_label' is {positive_label!r}; it must be one of several: {known}")
    return int(found[0])
