"""Golden samples: a request whose right answer is known, and how an answer is compared with it. Knows no protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trireme_server.json_difference import json_difference
from trireme_server.manifest import Check, GoldenSample, Tensor

Answer = dict[str, Tensor]
MAX_LENGTH_CHANGE = 0.01  # of a row that is compared by its cosine, which does not see the length
Ask = Callable[[str, GoldenSample], Answer]  # entry and sample; raises TritonRefused or TritonUnreachable


class WrongAnswer(Exception):
    """The model answers, but not as the original does. The text says where they differ."""


@dataclass(frozen=True)
class Comparison:
    """One output of an answer beside the expected one."""

    output: str
    check: Check
    found: float | None  # values that differ, largest difference or smallest cosine; None: there is nothing to measure
    fault: str | None = None  # how they differ beyond the check's bound; None: they do not
    length_change: float = 0.0  # of min_cosine: share by which the length of a row differs, of any row the largest

    @property
    def excess(self) -> float:
        """How far beyond the bound; negative: within it."""
        if self.found is None or math.isnan(self.found):
            return math.inf
        if self.check.kind == "min_cosine":
            return max(self.check.bound - self.found, self.length_change - MAX_LENGTH_CHANGE)
        return self.found - self.check.bound


def replay(ask: Ask, entry: str, sample: GoldenSample) -> None:
    """Sends one sample to `entry` and compares the answer.

    Raises:
        WrongAnswer: the answer differs by more than the sample allows.
        TritonRefused, TritonUnreachable: there is no answer.
    """
    for comparison in judge(sample, ask(entry, sample)):
        if comparison.fault is not None:
            raise WrongAnswer(f"{entry}: output {comparison.output!r} {comparison.fault}")


def judge(sample: GoldenSample, answer: Answer) -> list[Comparison]:
    """Every expected output beside the answer's."""
    return [compare(expected, answer.get(expected.name)) for expected in sample.outputs]


def compare(expected: Tensor, given: Tensor | None) -> Comparison:
    """`given` in the measure of the check that `expected` carries."""
    check = expected.check
    assert check is not None, "an expected output says how it is compared"
    if given is None:
        return Comparison(expected.name, check, None, "is missing")
    if given.datatype != expected.datatype:
        return Comparison(expected.name, check, None, f"is {given.datatype} instead of {expected.datatype}")
    if given.shape != expected.shape:
        fault = f"has shape {list(given.shape)} instead of {list(expected.shape)}"
        return Comparison(expected.name, check, None, fault)
    if len(given.values) != len(expected.values):
        fault = f"has {len(given.values)} values, which its shape {list(given.shape)} does not"
        return Comparison(expected.name, check, None, fault)
    return _MEASURES[check.kind](expected, given, check)


def _unequal(expected: Tensor, given: Tensor, check: Check) -> Comparison:
    pairs = zip(expected.values, given.values, strict=True)
    faults = [f"is {have!r} instead of {want!r}" for want, have in pairs if have != want]
    return Comparison(expected.name, check, float(len(faults)), faults[0] if faults else None)


def _distance(expected: Tensor, given: Tensor, check: Check) -> Comparison:
    pairs = zip(expected.values, given.values, strict=True)
    largest = _largest((abs(have - want) for want, have in pairs), default=0.0)
    is_within = largest <= check.bound  # false for a NaN
    fault = None if is_within else f"is off by {largest:.3g}; at most {check.bound:g} is allowed"
    return Comparison(expected.name, check, largest, fault)


def _json_distance(expected: Tensor, given: Tensor, check: Check) -> Comparison:
    pairs = list(zip(expected.values, given.values, strict=True))
    differences = [json_difference(want, have) for want, have in pairs]
    largest = max(differences, default=0.0)
    if largest <= check.bound:
        return Comparison(expected.name, check, largest)
    want, have = pairs[differences.index(largest)]
    if math.isinf(largest):
        return Comparison(expected.name, check, None, f"is {have!r} instead of {want!r}")
    fault = f"has a number that is off by {largest:.3g}; at most {check.bound:g} is allowed"
    return Comparison(expected.name, check, largest, fault)


def _direction(expected: Tensor, given: Tensor, check: Check) -> Comparison:
    """Of each row the cosine, and the length, which must be the expected one's within MAX_LENGTH_CHANGE."""
    width = expected.shape[-1]
    rows = list(zip(_rows(expected.values, width), _rows(given.values, width), strict=True))
    smallest = -_largest((-_cosine(want, have) for want, have in rows), default=-1.0)
    change = _largest((_length_change(want, have) for want, have in rows), default=0.0)
    fault = None
    if not smallest >= check.bound:  # so of a NaN as well
        fault = f"has cosine {smallest:.6f}; at least {check.bound:g} is needed"
    elif not change <= MAX_LENGTH_CHANGE:
        allowed = f"at most {MAX_LENGTH_CHANGE:.0%} is allowed"
        fault = f"has the right direction, but its length is off by {change:.2%}; {allowed}"
    return Comparison(expected.name, check, smallest, fault, change)


_MEASURES: dict[str, Callable[[Tensor, Tensor, Check], Comparison]] = {
    "equal": _unequal,
    "max_abs": _distance,
    "min_cosine": _direction,
    "json_max_abs": _json_distance,
}


def _largest(numbers: Iterable[float], default: float) -> float:
    """A NaN counts as larger than any number; `default` is that of no numbers."""
    return max(numbers, key=lambda number: math.inf if math.isnan(number) else number, default=default)


def _rows(values: Sequence[float], width: int) -> list[Sequence[float]]:
    return [values[begin : begin + width] for begin in range(0, len(values), width)]


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """NaN where there is none: of zeros, of infinite values, and of values whose products are beyond a float."""
    norms = math.hypot(*a) * math.hypot(*b)
    try:
        return math.fsum(x * y for x, y in zip(a, b, strict=True)) / norms if norms else math.nan
    except (ValueError, OverflowError):
        return math.nan


def _length_change(want: Sequence[float], have: Sequence[float]) -> float:
    length = math.hypot(*want)
    return abs(math.hypot(*have) / length - 1) if length else math.nan
