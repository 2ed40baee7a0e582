"""Golden samples of text models: from strings to final answers by the PyTorch original and plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from trireme_export.assembly import EXACT, Difference, GoldenSample, GoldenTensor, bytes_tensor
from trireme_export.catalogue import TextWindows
from trireme_export.labelling import Labelling
from trireme_export.original_answers import Floats, lengths_of, probabilities
from trireme_export.text_original import Original, split_into_windows

MIN_COSINE = 0.9999  # of an embedding, whatever the precision that a server runs the network in
MAX_SCORE_DIFFERENCE = 0.02
MIN_MARGIN = 0.5  # in log-odds, between a score and the threshold; several times what bf16 changes
# What was measured of an artifact counts twice: golden texts are others than those of the parity gate.
BEYOND_MEASURED = 2


@dataclass(frozen=True, kw_only=True)
class TextReference:
    """Text to the original's rows, one per window."""

    original: Original
    tokenizer: Tokenizer
    windows: TextWindows

    def window_rows(self, text: str) -> Floats:
        """(windows, width)."""
        windows = split_into_windows(self.tokenizer, text, self.windows)
        return self.original.rows([window.ids for window in windows])


def score_difference(measured: Difference) -> float:
    """Of a probability: logits that are each off by d change one by at most d / 2."""
    return max(MAX_SCORE_DIFFERENCE, BEYOND_MEASURED * measured.max_abs / 2)


def margin(least: float, measured: Difference) -> float:
    """Between two logits that may come towards each other: `least`, or more where the artifact differs more."""
    return max(least, BEYOND_MEASURED * 2 * measured.max_abs)


def vector_check(least_cosine: float, measured: Difference, *, normalize: bool) -> dict[str, float]:
    """The direction; of a vector that keeps its length, which a coarser artifact may change, every number."""
    cosine = min(least_cosine, 1 - BEYOND_MEASURED * (1 - measured.min_cosine))
    if normalize or cosine == least_cosine:
        return {"min_cosine": cosine}
    return {"max_abs": BEYOND_MEASURED * measured.max_abs}


def embedding_sample(
    reference: TextReference, texts: Sequence[str], measured: Difference = EXACT, *, normalize: bool
) -> GoldenSample:
    """One request with `texts`: windows are combined, then normalised if the checkpoint says so."""
    rows = [reference.window_rows(text) for text in texts]
    combine = np.mean if reference.windows.combine == "mean" else np.max
    vectors = np.stack([combine(windows, axis=0) for windows in rows])
    lengths = lengths_of(vectors)
    if normalize:
        vectors /= lengths
    check = vector_check(MIN_COSINE, measured, normalize=normalize)
    embedding = GoldenTensor(name="embedding", data_type="FP32", values=vectors.astype(np.float32), check=check)
    return GoldenSample(inputs=(texts_tensor(texts),), outputs=(embedding, windows_tensor([len(own) for own in rows])))


def classification_sample(
    reference: TextReference, texts: Sequence[str], labelling: Labelling, measured: Difference = EXACT
) -> GoldenSample:
    """One request with `texts`.

    The label is checked unless the scores lie so near each other, or near the threshold, that a permitted difference
    could change it.
    """
    rows = [reference.window_rows(text) for text in texts]
    scores = np.stack(
        [_combined(probabilities(logits, labelling.function), labelling, reference.windows) for logits in rows]
    )
    near = {"max_abs": score_difference(measured)}
    outputs = [GoldenTensor(name="scores", data_type="FP32", values=scores.astype(np.float32), check=near)]
    if min(_margin(own, labelling) for own in scores) > margin(MIN_MARGIN, measured):
        given = np.array([_given(own, labelling) for own in scores])
        labels = [labelling.labels[index].encode() for index in given]
        score = np.take_along_axis(scores, given[:, None], axis=1).astype(np.float32)
        outputs.append(bytes_tensor("label", labels, check={"equal": True}))
        outputs.append(GoldenTensor(name="score", data_type="FP32", values=score, check=near))
    return GoldenSample(inputs=(texts_tensor(texts),), outputs=(*outputs, windows_tensor([len(own) for own in rows])))


def _combined(scores: Floats, labelling: Labelling, windows: TextWindows) -> Floats:
    """(windows, labels) -> (labels,): docs/contracts.md says what each way is."""
    if windows.combine == "mean":
        return scores.mean(axis=0)  # type: ignore[no-any-return]
    if labelling.function == "sigmoid":
        return scores.max(axis=0)  # type: ignore[no-any-return]
    deciding = scores.max(axis=1) if labelling.positive_label is None else scores[:, _positive(labelling)]
    return scores[deciding.argmax()]  # type: ignore[no-any-return]


def _given(scores: Floats, labelling: Labelling) -> int:
    """The label that is given: the positive one exactly when its score reaches the threshold, or the best."""
    if labelling.threshold is None:
        return int(scores.argmax())
    positive = _positive(labelling)
    if scores[positive] >= labelling.threshold:
        return positive
    return int(np.argmax(np.where(np.arange(len(scores)) == positive, -1.0, scores)))


def _margin(scores: Floats, labelling: Labelling) -> float:
    """How far the scores are from giving another label, in log-odds."""
    odds = _log_odds(scores)
    if labelling.threshold is not None:
        return float(abs(odds[_positive(labelling)] - _log_odds(np.float64(labelling.threshold))))
    best, *others = sorted(odds, reverse=True)
    return float(best - others[0]) if others else np.inf


def _positive(labelling: Labelling) -> int:
    assert labelling.positive_label is not None, "threshold and positive_label go together"
    return labelling.labels.index(labelling.positive_label)


def _log_odds(probability: Any) -> Any:
    clipped = np.clip(probability, 1e-12, 1 - 1e-12)  # certain either way
    return np.log(clipped) - np.log1p(-clipped)


def texts_tensor(texts: Sequence[str], name: str = "text") -> GoldenTensor:
    """The input of a request with `texts`."""
    return bytes_tensor(name, [text.encode() for text in texts])


def windows_tensor(counts: Sequence[int]) -> GoldenTensor:
    """How many windows each text of a request has."""
    values = np.array([[count] for count in counts], np.int32)
    return GoldenTensor(name="windows", data_type="INT32", values=values, check={"equal": True})
