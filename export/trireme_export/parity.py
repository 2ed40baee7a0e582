"""The gate that no artifact passes which answers differently from its original."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trireme_export.assembly import Array, Assembly, ParityCase, Tolerance
from trireme_export.errors import ParityFailed
from trireme_export.progress import Advance
from trireme_export.runtimes import Runtime


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The largest of one or many cases; `min_cosine` over rows that are not zero."""

    max_abs: float
    min_cosine: float

    def within(self, tolerance: Tolerance) -> bool:
        """False for NaN too."""
        return self.max_abs <= tolerance.max_abs and self.min_cosine >= tolerance.min_cosine

    def as_json(self) -> dict[str, float]:
        """As a manifest states it."""
        return {"max_abs": self.max_abs, "min_cosine": self.min_cosine}


@dataclass(frozen=True, kw_only=True)
class ParityReport:
    """What was compared, and the largest difference over all runtimes."""

    cases: int
    runtimes: tuple[str, ...]
    measured: Difference

    def describe(self, assembly: Assembly) -> str:
        """For the terminal."""
        allowed = assembly.tolerance
        return (
            f"largest difference {self.measured.max_abs:.2g} (allowed {allowed.max_abs:.2g}), "
            f"least cosine {self.measured.min_cosine:.7f} (allowed {allowed.min_cosine})"
        )


def check_parity(assembly: Assembly, runtimes: Iterable[Runtime], advance: Advance) -> ParityReport:
    """Run every case of `assembly` on the artifact, in every one of its runtimes.

    Raises:
        ParityFailed: a case is farther from the original than the tolerance; the message names the worst.
    """
    cases = list(assembly.parity_cases())
    names, differences = [], []
    for runtime in runtimes:
        names.append(runtime.name)
        for number, case in enumerate(cases, start=1):
            differences.append(_checked(runtime, case, assembly.tolerance))
            advance(number, len(cases))
    return ParityReport(cases=len(cases), runtimes=tuple(names), measured=largest(differences))


def _checked(runtime: Runtime, case: ParityCase, tolerance: Tolerance) -> Difference:
    actual = runtime.run(case.inputs)
    if actual.shape != case.expected.shape:
        raise ParityFailed(
            f"{runtime.name}, {case.name}: shape {actual.shape}, the original's is {case.expected.shape}"
        )
    difference = compare(actual, case.expected)
    if not difference.within(tolerance):
        raise ParityFailed(
            f"{runtime.name}, {case.name}: differs from the original by {difference.max_abs:.3g} "
            f"(allowed {tolerance.max_abs:.3g}), cosine {difference.min_cosine:.7f} (at least {tolerance.min_cosine})"
        )
    return difference


def compare(actual: Array, expected: Array) -> Difference:
    """Of two arrays of rows with the same shape. Rows that should be zero count by their values only."""
    rows = actual.reshape(-1, actual.shape[-1]).astype(np.float64)
    wanted = expected.reshape(-1, expected.shape[-1]).astype(np.float64)
    filled = np.abs(wanted).max(axis=1) > 0
    cosines = _cosines(rows[filled], wanted[filled])
    return Difference(max_abs=float(np.abs(rows - wanted).max()), min_cosine=float(cosines.min(initial=1.0)))


def largest(differences: Iterable[Difference]) -> Difference:
    """The worst of each figure."""
    worst = list(differences)
    return Difference(
        max_abs=max(difference.max_abs for difference in worst),
        min_cosine=min(difference.min_cosine for difference in worst),
    )


def _cosines(rows: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    products = np.einsum("rd,rd->r", rows, wanted)
    return products / np.maximum(np.linalg.norm(rows, axis=1) * np.linalg.norm(wanted, axis=1), 1e-300)  # type: ignore[no-any-return]
