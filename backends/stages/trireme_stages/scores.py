"""Logits become probabilities, and labels come from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
from trireme_triton.parameters import InvalidParameter
from trireme_triton.tensors import Array

from trireme_stages.stage import named_file

ScoreFunction = Literal["softmax", "sigmoid"]


def scores_of(function: ScoreFunction, logits: Array) -> Array:
    """FP32 probabilities of FP32 logits, over the last dimension for `softmax`; no logit is too large."""
    return _softmax(logits) if function == "softmax" else _sigmoid(logits)


def _softmax(logits: Array) -> Array:
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


def _sigmoid(logits: Array) -> Array:
    """`e` is exp(-|x|), at most 1; the two forms of 1 / (1 + exp(-x)) are each used where they do not overflow."""
    e = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, e) / (1 + e)  # type: ignore[no-any-return]


def read_labels(folder: Path, name: str, count: int) -> Array:
    """The labels of a model with `count` logits, as BYTES: an object array of UTF-8.

    Raises:
        InvalidParameter: the file is no JSON list of strings, or has another number of them.
    """
    path = named_file(folder, "labels", name)
    try:
        labels = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(f"parameter 'labels': {path} is not JSON: {error}") from error
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InvalidParameter(f"parameter 'labels': {path} must be a JSON list of strings")
    if len(labels) != count:
        raise InvalidParameter(f"parameter 'labels': {path} has {len(labels)} labels; the logits have width {count}")
    return np.array([label.encode() for label in labels], np.object_)
