"""Golden samples of rerankers: from a query and texts to scores by the PyTorch original and plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trireme_export.assembly import EXACT, Difference, GoldenSample, GoldenTensor
from trireme_export.original_answers import sigmoid
from trireme_export.steps import ScoreFunction
from trireme_export.text_golden import (
    BEYOND_MEASURED,
    TextReference,
    score_difference,
    texts_tensor,
    windows_tensor,
)
from trireme_export.text_original import Tokenized, split_pair_into_windows

MAX_LOGIT_DIFFERENCE = 0.1


@dataclass(frozen=True, kw_only=True)
class PairReference:
    """A query and a text to the original's logits, one per window."""

    text: TextReference
    token_types: bool

    def windows(self, query: str, text: str) -> list[Tokenized]:
        """The windows of `text`, each with the whole `query`."""
        split = split_pair_into_windows(self.text.tokenizer, query, text, self.text.windows)
        return [Tokenized(window.ids, window.type_ids if self.token_types else None) for window in split]


def scores_sample(
    reference: PairReference,
    query: str,
    texts: Sequence[str],
    function: ScoreFunction,
    measured: Difference = EXACT,
) -> GoldenSample:
    """One request with `texts` and the same query for each; the best window of a text counts."""
    split = [reference.windows(query, text) for text in texts]
    logits = [max(float(reference.text.original.row(*window)[0]) for window in own) for own in split]
    scores = sigmoid(np.array(logits)) if function == "sigmoid" else np.array(logits)
    of_logits = max(MAX_LOGIT_DIFFERENCE, BEYOND_MEASURED * measured.max_abs)
    near = {"max_abs": score_difference(measured) if function == "sigmoid" else of_logits}
    values = scores.astype(np.float32)[:, None]
    score = GoldenTensor(name="score", data_type="FP32", values=values, check=near)
    inputs = (texts_tensor([query] * len(texts), name="query"), texts_tensor(texts))
    return GoldenSample(inputs=inputs, outputs=(score, windows_tensor([len(own) for own in split])))
