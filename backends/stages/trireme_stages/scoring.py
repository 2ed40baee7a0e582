"""The stage `score`: the one logit of a text network becomes a text's score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trireme_triton.tensors import Answer, Inputs

from trireme_stages.scores import scores_of
from trireme_stages.segments import Combine, Windows, joined, read_windows, split_requests
from trireme_stages.stage import Model, Signature, answer_parsed


@dataclass(frozen=True, kw_only=True)
class ScoreParameters:
    """`windows` combines the scores of a text's windows; `identity` gives the logit itself."""

    function: Literal["sigmoid", "identity"] = "sigmoid"
    windows: Combine = "max"

    def signature(self) -> Signature:
        """One logit for each window, one score for each text."""
        return Signature(
            inputs={"logits": ("TYPE_FP32", (-1, 1)), "windows": ("TYPE_INT32", (1,))},
            outputs={"score": ("TYPE_FP32", (1,))},
        )


class Score:
    """The larger, the better the text fits its query."""

    Parameters = ScoreParameters

    def __init__(self, parameters: ScoreParameters, _: Model) -> None:
        self._parameters = parameters

    def answer(self, batch: Sequence[Inputs]) -> list[Answer]:
        """All texts of all requests are computed as one array."""
        return answer_parsed(batch, lambda inputs: read_windows("logits", inputs, 1), self._score)

    def _score(self, requests: Sequence[Windows]) -> Iterator[Answer]:
        windows = joined(requests)
        rows = windows.rows if self._parameters.function == "identity" else scores_of("sigmoid", windows.rows)
        scores = Windows(rows=rows, counts=windows.counts).combined(self._parameters.windows)
        for (score,) in split_requests(requests, scores):
            yield {"score": score}
