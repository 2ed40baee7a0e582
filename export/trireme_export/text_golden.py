"""Golden samples of text models: from strings to final answers by the PyTorch original and plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from trireme_export.assembly import GoldenSample, GoldenTensor, bytes_tensor
from trireme_export.catalogue import TextWindows
from trireme_export.heads import HeadDescription
from trireme_export.text_original import TextOriginal, split_into_windows

Floats = NDArray[np.float64]
MIN_COSINE = 0.9999  # of an embedding, whatever the precision that a server runs the network in
MAX_SCORE_DIFFERENCE = 0.02
MIN_MARGIN = 0.5  # in log-odds, between a score and the threshold; several times what bf16 changes


@dataclass(frozen=True, kw_only=True)
class TextReference:
    """Text to the original's rows, one per window."""

    original: TextOriginal
    tokenizer: Tokenizer
    windows: TextWindows

    def window_rows(self, text: str) -> Floats:
        """(windows, width)."""
        return self.original.rows(split_into_windows(self.tokenizer, text, self.windows))


def embedding_sample(reference: TextReference, texts: Sequence[str], *, normalize: bool) -> GoldenSample:
    """One request with `texts`: windows are combined, then normalised if the checkpoint says so."""
    rows = [reference.window_rows(text) for text in texts]
    combine = np.mean if reference.windows.combine == "mean" else np.max
    vectors = np.stack([combine(windows, axis=0) for windows in rows])
    if normalize:
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    check = {"min_cosine": MIN_COSINE}
    embedding = GoldenTensor(name="embedding", data_type="FP32", values=vectors.astype(np.float32), check=check)
    return GoldenSample(inputs=(_texts(texts),), outputs=(embedding, _windows(rows)))


def classification_sample(reference: TextReference, texts: Sequence[str], head: HeadDescription) -> GoldenSample:
    """One request with `texts`: the window with the largest positive score decides.

    The label is checked unless a score lies so near the threshold that a permitted difference could change it.
    """
    positive = head.labels.index(head.positive_label)
    rows = [reference.window_rows(text) for text in texts]
    scores = np.stack([_deciding(_softmax(logits), positive) for logits in rows])
    given = np.array([_given(own, positive, head.threshold) for own in scores])
    margins = np.abs(_log_odds(scores[:, positive]) - _log_odds(np.float64(head.threshold)))
    near = {"max_abs": MAX_SCORE_DIFFERENCE}
    outputs = [GoldenTensor(name="scores", data_type="FP32", values=scores.astype(np.float32), check=near)]
    if margins.min() > MIN_MARGIN:
        labels = [head.labels[index].encode() for index in given]
        score = np.take_along_axis(scores, given[:, None], axis=1).astype(np.float32)
        outputs.append(bytes_tensor("label", labels, check={"equal": True}))
        outputs.append(GoldenTensor(name="score", data_type="FP32", values=score, check=near))
    return GoldenSample(inputs=(_texts(texts),), outputs=(*outputs, _windows(rows)))


def _given(scores: Floats, positive: int, threshold: float) -> int:
    """The label that is given: the positive one exactly when its score reaches the threshold."""
    if scores[positive] >= threshold:
        return positive
    return int(np.argmax(np.where(np.arange(len(scores)) == positive, -1.0, scores)))


def _deciding(scores: Floats, positive: int) -> Floats:
    return scores[scores[:, positive].argmax()]  # type: ignore[no-any-return]


def _log_odds(probability: Floats | np.float64) -> Floats | np.float64:
    clipped = np.clip(probability, 1e-12, 1 - 1e-12)  # certain either way
    return np.log(clipped) - np.log1p(-clipped)  # type: ignore[no-any-return]


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


def _texts(texts: Sequence[str]) -> GoldenTensor:
    return bytes_tensor("text", [text.encode() for text in texts])


def _windows(rows: Sequence[Floats]) -> GoldenTensor:
    counts = np.array([[len(windows)] for windows in rows], np.int32)
    return GoldenTensor(name="windows", data_type="INT32", values=counts, check={"equal": True})
