"""Restarts, repairs and the clock: policies, with the time made up."""

import pytest
from trireme_server.exposition import Sample
from trireme_server.mending import Mending
from trireme_server.patient_clock import PatientClock
from trireme_server.restart_policy import CrashBudget
from trireme_server.stub_watch import ModelProgress
from trireme_server.work import progress_of

A, B = frozenset({"a_first", "a_second", "a"}), frozenset({"b"})


def mending(limit=5):
    return Mending(lambda model: A if model in A else B, limit)


def test_the_first_attempt_has_no_pause_and_then_the_pause_doubles_up_to_half_a_minute():
    budget = CrashBudget(9)
    assert [budget.crashed(0.0) for _ in range(9)] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_more_failures_in_a_row_than_the_limit_are_given_up():
    budget = CrashBudget(2)
    assert [budget.crashed(now) for now in (0.0, 100.0, 200.0)] == [0.0, 0.5, None]


def test_a_recovery_ends_the_row_of_failures():
    budget = CrashBudget(2)
    for now in (0.0, 1000.0, 2000.0):
        assert budget.crashed(now) == 0.0
        assert budget.crashed(now) == 0.5
        budget.recovered(now)


def test_recoveries_that_do_not_last_are_given_up_as_well_only_later():
    budget, pauses = CrashBudget(1), []
    for now in range(7):
        pauses.append(budget.crashed(float(now)))
        budget.recovered(float(now))
    assert pauses == [0.0, 0.0, 0.0, 0.0, 0.0, None, None]


def test_no_restart_at_all_can_be_asked_for():
    assert CrashBudget(0).crashed(0.0) is None


def test_a_broken_model_is_mended_at_once():
    table = mending()
    assert table.breaks({"a_first"}, 1.0)
    (repair,) = table.start_due(1.0)
    assert repair.models == {"a_first"}
    assert repair.group == A
    assert table.broken == {"a_first"}
    assert table.mended(repair, 3.5) == 2.5
    assert not table.broken


def test_a_group_has_one_repair_at_a_time_and_what_breaks_meanwhile_comes_after_it():
    table = mending()
    table.breaks({"a_first"}, 0.0)
    (first,) = table.start_due(0.0)
    table.breaks({"a_second"}, 0.1)
    assert table.start_due(10.0) == []
    table.mended(first, 10.0)
    (second,) = table.start_due(10.0)
    assert second.models == {"a_second"}


def test_groups_are_mended_side_by_side():
    table = mending()
    table.breaks({"a_first"}, 0.0)
    table.breaks({"b"}, 0.0)
    assert {repair.group for repair in table.start_due(0.0)} == {A, B}


def test_a_repair_that_fails_is_tried_again_later_until_it_is_given_up():
    table = mending(limit=2)
    assert table.breaks({"b"}, 0.0)
    assert table.failed(table.start_due(0.0)[0], 1.0)
    assert table.start_due(1.4) == []
    assert not table.failed(table.start_due(1.5)[0], 2.0)


def test_a_dead_server_ends_every_repair():
    table = mending()
    table.breaks({"a_first"}, 0.0)
    table.start_due(0.0)
    table.breaks({"b"}, 0.0)
    table.forget()
    assert not table.broken
    assert table.start_due(100.0) == []


@pytest.mark.parametrize(("gap", "expected"), [(0.25, 0.25), (3600.0, 1.0)])
def test_a_gap_in_which_the_launcher_was_suspended_counts_as_a_second(gap, expected):
    times = iter([100.0, 100.0 + gap])
    assert PatientClock(time_s=lambda: next(times)).look() == pytest.approx(expected)


def test_a_sign_of_progress_counts_as_something_done_and_a_promise_is_kept_apart():
    samples = [
        Sample("nv_inference_exec_count", {"model": "a"}, 5.0),
        Sample("trireme_progress_total", {"model": "a"}, 2.0),
        Sample("trireme_progress_within_seconds", {"model": "b"}, 4.0),
    ]
    assert progress_of(samples) == {"a": ModelProgress(done=7.0), "b": ModelProgress(within_s=4.0)}
