"""How well scores tell two classes apart. Plain numpy; labels are 0 and 1, larger scores mean 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
RATE = 0.01  # of false positives that users accept


def roc_auc(scores: Floats, labels: Labels) -> float:
    """Chance that a positive scores above a negative, ties counted half (the Mann-Whitney statistic)."""
    negatives = np.sort(scores[labels == 0])
    positives = scores[labels == 1]
    below = np.searchsorted(negatives, positives, side="left")
    ties = np.searchsorted(negatives, positives, side="right") - below
    return float((below + ties / 2).mean() / len(negatives))


def threshold_at(scores: Floats, labels: Labels, rate: float = RATE) -> float:
    """The smallest threshold that at most a share `rate` of the negatives reaches."""
    negatives = np.sort(scores[labels == 0])[::-1]
    return math.nextafter(float(negatives[int(rate * len(negatives))]), math.inf)


def recall_at(scores: Floats, labels: Labels, rate: float = RATE) -> float:
    """Share of the positives found at that rate of false positives."""
    return float((scores[labels == 1] >= threshold_at(scores, labels, rate)).mean())


def partial_auc(scores: Floats, labels: Labels, rate: float = 0.05) -> float:
    """Mean recall over all rates of false positives up to `rate`: steadier than the recall at one of them."""
    steps = max(1, int(rate * int((labels == 0).sum())))
    return float(np.mean([recall_at(scores, labels, rate * step / steps) for step in range(steps)]))


def describe(scores: Floats, labels: Labels, threshold: float) -> dict[str, Any]:
    """Figures of one split: at the given threshold, and free of it."""
    given = scores >= threshold
    found = int((given & (labels == 1)).sum())
    negatives, positives = int((labels == 0).sum()), int((labels == 1).sum())
    return {
        "texts": len(labels),
        "injections": positives,
        "precision": round(found / max(int(given.sum()), 1), 4),
        "recall": round(found / positives, 4),
        "false_positive_rate": round(float((given & (labels == 0)).sum()) / negatives, 4),
        "roc_auc": round(roc_auc(scores, labels), 4),
        "recall_at_false_positive_rate_0.01": round(recall_at(scores, labels), 4),
    }
