"""The gate that no artifact passes which answers differently from its original."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trireme_export.assembly import Array, Assembly, Difference, ParityCase, Tolerance
from trireme_export.errors import ParityFailed, ParityRun
from trireme_export.kinds import Precision
from trireme_export.progress import Advance
from trireme_export.runtimes import Runtime
from trireme_export.tolerances import TIE, rank_correlation, tolerance_of, top1_agreement


@dataclass(frozen=True, kw_only=True)
class ParityReport:
    """What was compared, and the largest difference over all runtimes."""

    cases: int
    runtimes: tuple[str, ...]
    tolerance: Tolerance
    measured: Difference
    on_real: Difference  # without the cases of random numbers
    farthest: ParityRun

    def describe(self) -> str:
        """For the terminal."""
        return ", ".join(_figures(self.measured, self.tolerance))


def check_parity(
    assembly: Assembly, precision: Precision, runtimes: Iterable[Runtime], advance: Advance
) -> ParityReport:
    """Run every case of `assembly` on the artifact, in every one of its runtimes.

    Raises:
        ParityFailed: a case is farther from the original than the tolerance; the message names the worst.
    """
    cases = list(assembly.parity_cases())
    largest_number = max(float(np.abs(case.expected).max()) for case in cases)
    tolerance = tolerance_of(assembly.task, precision, assembly.tolerance, largest_number)
    names: list[str] = []
    everywhere: list[Difference] = []
    for runtime in runtimes:
        names.append(runtime.name)
        everywhere += _differences(runtime, cases, tolerance, largest_number, advance)
    is_real = [case.is_real for case in cases] * len(names)
    farthest = everywhere.index(max(everywhere, key=_size))
    return ParityReport(
        cases=len(cases),
        runtimes=tuple(names),
        tolerance=tolerance,
        measured=largest(everywhere),
        on_real=largest(each for each, real in zip(everywhere, is_real, strict=True) if real),
        farthest=ParityRun(names[farthest // len(cases)], cases[farthest % len(cases)].name),
    )


def _differences(
    runtime: Runtime, cases: Sequence[ParityCase], tolerance: Tolerance, largest_number: float, advance: Advance
) -> list[Difference]:
    """Of each case; the last has the agreement over all, where labels are asked for."""
    answers, found = [], []
    for number, case in enumerate(cases, start=1):
        answers.append(_answer(runtime, case))
        found.append(_checked(runtime, case, answers[-1], tolerance))
        advance(number, len(cases))
    if tolerance.min_top1 is not None:
        agreement = _agreement(cases, answers, tie=TIE * largest_number)
        farthest = ParityRun(runtime.name, cases[found.index(max(found, key=_size))].name)
        found[-1] = dataclasses.replace(found[-1], top1=agreement)
        _within(dataclasses.replace(largest(found), top1=agreement), tolerance, farthest, f"{runtime.name}, all cases")
    return found


def _size(difference: Difference) -> float:
    return difference.max_abs


def _answer(runtime: Runtime, case: ParityCase) -> Array:
    actual = runtime.run(case.inputs)
    if actual.shape != case.expected.shape:
        run = ParityRun(runtime.name, case.name)
        raise ParityFailed(f"{run}: shape {actual.shape}, the original's is {case.expected.shape}", run)
    return actual


def _checked(runtime: Runtime, case: ParityCase, actual: Array, tolerance: Tolerance) -> Difference:
    """One case: its numbers, and, unless they are random, the ranks of its rows."""
    difference = compare(actual, case.expected)
    if tolerance.min_rank_correlation is not None and case.is_real:
        difference = dataclasses.replace(difference, rank_correlation=rank_correlation(actual, case.expected))
    run = ParityRun(runtime.name, case.name)
    return _within(difference, tolerance, run, str(run))


def _agreement(cases: Sequence[ParityCase], answers: Sequence[Array], tie: float) -> float:
    """Over the rows of all real cases."""
    columns = cases[0].expected.shape[-1]
    real = [(answer, case.expected) for answer, case in zip(answers, cases, strict=True) if case.is_real]
    rows, wanted = (np.concatenate([each.reshape(-1, columns) for each in own]) for own in zip(*real, strict=True))
    return top1_agreement(rows, wanted, tie)


def _within(difference: Difference, tolerance: Tolerance, run: ParityRun, where: str) -> Difference:
    if not difference.within(tolerance):
        figures = ", ".join(_figures(difference, tolerance))
        raise ParityFailed(f"{where}: differs from the original: {figures}", run)
    return difference


def _figures(found: Difference, allowed: Tolerance) -> Iterator[str]:
    yield f"largest difference {found.max_abs:.2g} (allowed {allowed.max_abs:.2g})"
    if allowed.min_cosine > -1:
        yield f"least cosine {found.min_cosine:.7f} (allowed {allowed.min_cosine})"
    if found.top1 is not None and allowed.min_top1 is not None:
        yield f"same best label {found.top1:.2%} (allowed {allowed.min_top1:.0%})"
    if found.rank_correlation is not None and allowed.min_rank_correlation is not None:
        yield f"rank correlation {found.rank_correlation:.4f} (allowed {allowed.min_rank_correlation})"


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
        top1=_least(difference.top1 for difference in worst),
        rank_correlation=_least(difference.rank_correlation for difference in worst),
    )


def _least(figures: Iterable[float | None]) -> float | None:
    return min((figure for figure in figures if figure is not None), default=None)


def _cosines(rows: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    products = np.einsum("rd,rd->r", rows, wanted)
    return products / np.maximum(np.linalg.norm(rows, axis=1) * np.linalg.norm(wanted, axis=1), 1e-300)  # type: ignore[no-any-return]
