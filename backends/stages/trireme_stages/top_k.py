"""The stage `top_k`: the logits of an image become its k best labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from trireme_triton.parameters import InvalidParameter, parameter
from trireme_triton.tensors import Answer, Inputs

from trireme_stages.scores import ScoreFunction, read_labels, scores_of
from trireme_stages.segments import Windows, joined, read_vectors, split_requests
from trireme_stages.stage import Model, Signature, answer_parsed


@dataclass(frozen=True, kw_only=True)
class TopKParameters:
    """`k` labels are given, best first."""

    k: int = parameter(5, minimum=1)
    function: ScoreFunction = "softmax"
    labels: str = "labels.json"

    def signature(self) -> Signature:
        """C is the number of labels."""
        return Signature(
            inputs={"logits": ("TYPE_FP32", ("C",))},
            outputs={"label": ("TYPE_STRING", (self.k,)), "score": ("TYPE_FP32", (self.k,))},
        )


class TopK:
    """Of labels with equal scores the one with the smaller index comes first."""

    Parameters = TopKParameters

    def __init__(self, parameters: TopKParameters, model: Model) -> None:
        self._parameters = parameters
        self._labels = read_labels(model.folder, parameters.labels, model.sizes["C"])
        if parameters.k > len(self._labels):
            raise InvalidParameter(f"parameter 'k' is {parameters.k}; there are {len(self._labels)} labels")

    def answer(self, batch: Sequence[Inputs]) -> list[Answer]:
        """All images of all requests are computed as one array."""
        return answer_parsed(batch, self._logits, self._best)

    def _logits(self, inputs: Inputs) -> Windows:
        return read_vectors("logits", inputs, len(self._labels))

    def _best(self, requests: Sequence[Windows]) -> Iterator[Answer]:
        scores = scores_of(self._parameters.function, joined(requests).rows)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self._parameters.k]
        score = np.take_along_axis(scores, best, axis=1)
        for own in split_requests(requests, self._labels[best], score):
            yield dict(zip(("label", "score"), own, strict=True))
