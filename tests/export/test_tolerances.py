"""What the gate asks of each precision."""

import numpy as np
import pytest
from trireme_export.assembly import Assembly, Difference, ParityCase, Tolerance
from trireme_export.errors import ParityFailed
from trireme_export.parity import check_parity
from trireme_export.tolerances import BOUNDS, rank_correlation, tolerance_of, top1_agreement

FP32 = Tolerance(max_abs=1e-3, min_cosine=0.999999)


def test_fp32_keeps_its_own_and_the_coarser_allow_more_in_proportion():
    assert tolerance_of("text-classification", "fp32", FP32, 10) == FP32
    allowed = [
        tolerance_of("text-classification", precision, FP32, 10).max_abs for precision in ("fp16", "bf16", "int8")
    ]
    assert allowed == sorted(allowed)
    assert tolerance_of("text-classification", "int8", FP32, 20).max_abs == 2 * allowed[-1]


@pytest.mark.parametrize("task", ["text-classification", "token-classification", "image-classification"])
def test_labels_are_asked_for_their_best_and_not_for_a_direction(task):
    tolerance = tolerance_of(task, "int8", FP32, 1)
    assert (tolerance.min_top1, tolerance.min_rank_correlation) == (BOUNDS["int8"].min_top1, None)
    assert tolerance.min_cosine == -1


@pytest.mark.parametrize("task", ["sentence-embedding", "image-embedding", "reranking"])
def test_vectors_and_scores_are_asked_for_their_ranks(task):
    tolerance = tolerance_of(task, "fp16", FP32, 1)
    assert (tolerance.min_top1, tolerance.min_rank_correlation) == (None, BOUNDS["fp16"].min_rank_correlation)
    assert (tolerance.min_cosine > 0) == (task != "reranking")


def test_a_label_that_the_original_hardly_prefers_counts_as_its_best():
    original = np.array([[1.0, 0.99, 0.0], [1.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    other = np.array([[0.9, 1.0, 0.0], [0.4, 0.5, 0.0], [1.0, 0.0, 0.0]])
    assert top1_agreement(other, original, tie=0.02) == 0.5, "padding does not count"
    assert top1_agreement(original, original, tie=0) == 1


def test_ranks_of_scores_are_compared_whatever_their_size():
    scores = np.array([[1.0], [2.0], [3.0], [10.0], [0.0]])
    assert rank_correlation(scores**3, scores) == pytest.approx(1)
    assert rank_correlation(-scores, scores) == pytest.approx(-1)
    assert rank_correlation(scores[:3], -scores[:3]) == 1, "too few to rank"


def test_ranks_of_vectors_are_those_of_how_alike_each_two_are():
    vectors = np.random.default_rng(1).standard_normal((12, 8))
    assert rank_correlation(3 * vectors, vectors) == pytest.approx(1)
    assert rank_correlation(vectors[::-1], vectors) < 0.5


class Answers:
    """A runtime that gives what it is told to."""

    name = "told"

    def __init__(self, *answers):
        self._answers = iter(answers)

    def run(self, inputs):
        return next(self._answers)


def case(expected, *, is_real=True):
    return ParityCase(name="case", inputs={}, expected=np.array(expected), is_real=is_real)


def gate(cases, answers, task="text-classification", precision="int8"):
    assembly = Assembly(
        task=task,
        tolerance=FP32,
        parity_cases=lambda: cases,
        **dict.fromkeys(("network", "example", "dynamic", "output", "ranges", "steps", "files", "samples", "layers")),
        golden_samples=lambda measured: [],
    )
    return check_parity(assembly, precision, [Answers(*map(np.array, answers))], lambda done, total: None)


def test_another_best_label_closes_the_gate_though_every_number_is_near():
    with pytest.raises(ParityFailed, match=r"same best label 50.00% \(allowed 95%\)"):
        gate([case([[1.0, 0.9], [0.0, 1.0]])], [[[0.9, 1.0], [0.0, 1.0]]])


def test_labels_of_random_numbers_do_not_count_but_their_size_does():
    cases = [case([[1.0, 0.9]], is_real=False), case([[0.0, 1.0]])]
    report = gate(cases, [[[0.9, 1.0]], [[0.0, 0.99]]])
    assert report.measured.top1 == 1
    assert report.measured.max_abs == pytest.approx(0.1)
    assert report.on_real.max_abs == pytest.approx(0.01)
    with pytest.raises(ParityFailed, match=r"largest difference 0.5"):
        gate(cases, [[[0.5, 0.9]], [[0.0, 1.0]]])


def test_not_a_number_is_within_no_tolerance():
    assert not Difference(max_abs=float("nan"), min_cosine=1).within(Tolerance(max_abs=1e9, min_cosine=-1))
    with pytest.raises(ParityFailed):
        gate([case([[1.0, 0.0]])], [[[float("nan"), 0.0]]])
