"""How far one JSON document is from another that should say the same. Knows nothing of samples."""

from __future__ import annotations

import json
import math
from typing import Any

DIFFERENT = math.inf  # in more than numbers with a fraction


def json_difference(expected: bytes, given: bytes) -> float:
    """The largest difference of numbers with a fraction; all else must be the same, whole numbers too.

    DIFFERENT if it is not, or if `given` is no JSON.
    """
    try:
        return _difference(json.loads(expected), json.loads(given))
    except (ValueError, RecursionError):
        return DIFFERENT


def _difference(expected: Any, given: Any) -> float:
    match expected, given:
        case float(), float():
            return abs(expected - given)
        case dict(), dict() if expected.keys() == given.keys():
            return _largest([_difference(expected[key], given[key]) for key in expected])
        case list(), list() if len(expected) == len(given):
            return _largest([_difference(*pair) for pair in zip(expected, given, strict=True)])
    return 0.0 if type(expected) is type(given) and expected == given else DIFFERENT


def _largest(differences: list[float]) -> float:
    """A NaN counts as larger than any number."""
    return DIFFERENT if any(map(math.isnan, differences)) else max(differences, default=0.0)
