"""When a stub counts as dead or stalled: the policy, with samples made up."""

import dataclasses

import pytest
from trireme_server.stub_watch import ModelProgress, StallLimits, StubWatch
from trireme_server.stubs import StubSample

IDLE = StubSample(is_stopped=False, is_idle=True, waits_outside=False, thread_runtime_ns=1, thread_waits=1, cpu_ticks=1)
BLOCKED = dataclasses.replace(IDLE, is_idle=False)
STILL = ModelProgress()
DEFAULT = StallLimits()


def busy(second: float, **changes: object) -> StubSample:
    """A sample of a stub whose main thread has used one core for so long."""
    return dataclasses.replace(BLOCKED, thread_runtime_ns=int(second * 1e9), **changes)


def first_verdict(samples, progress=lambda _: STILL, limits=DEFAULT, scrape_s=0.0):
    """(second, kind) of the first verdict over samples taken four times a second."""
    watch = StubWatch(limits, 0.0)
    for number, sample in enumerate(samples):
        verdict = watch.judge(sample, progress(number / 4), number / 4 - scrape_s, number / 4)
        if verdict is not None:
            return number / 4, verdict.kind
    return None


def test_an_idle_stub_is_left_alone():
    assert first_verdict([IDLE] * 1000) is None


def test_a_stub_that_is_gone_is_noticed_at_once():
    assert first_verdict([IDLE, None]) == (0.25, "gone")


def test_a_stub_is_stopped_when_two_looks_in_a_row_find_it_so():
    stopped = dataclasses.replace(IDLE, is_stopped=True)
    assert first_verdict([stopped, IDLE] * 10) is None
    assert first_verdict([IDLE, stopped, stopped]) == (0.5, "stopped")


def test_a_stub_that_does_not_run_in_the_middle_of_a_request_is_stalled_after_two_seconds():
    assert first_verdict([IDLE] + [BLOCKED] * 40) == (2.0, "stalled")


def test_a_stub_that_waits_for_another_program_has_the_long_limit():
    outside = dataclasses.replace(BLOCKED, waits_outside=True)
    assert first_verdict([outside] * 200) == (30.0, "stalled")


def test_a_stub_that_works_is_left_alone_until_the_long_limit():
    assert first_verdict([busy(second / 4) for second in range(200)]) == (30.0, "stalled")


def test_threads_or_children_that_work_count_as_work():
    samples = [dataclasses.replace(BLOCKED, cpu_ticks=ticks * 25) for ticks in range(100)]
    assert first_verdict(samples) is None


def test_the_background_threads_of_a_hanging_stub_do_not_count_as_work():
    samples = [dataclasses.replace(BLOCKED, cpu_ticks=1 + looks // 100) for looks in range(100)]
    assert first_verdict(samples) == (2.0, "stalled")


def test_a_stub_that_gets_requests_done_may_be_busy_for_ever():
    samples = [busy(second / 4, thread_waits=second) for second in range(1000)]
    assert first_verdict(samples, lambda second: ModelProgress(done=second // 10)) is None


def test_an_instance_that_never_waits_has_no_part_in_what_the_others_get_done():
    samples = [busy(second / 4) for second in range(200)]
    found = first_verdict(samples, lambda second: ModelProgress(done=second))
    assert found is not None
    assert found[1] == "stalled"


def promised(within_s):
    """Progress for ten seconds, and then none."""
    return lambda second: ModelProgress(done=min(second, 10.0), within_s=within_s)


@pytest.mark.parametrize(("within_s", "noticed_at"), [(0.1, 12.0), (2.0, 12.0), (9.0, 19.0), (900.0, 40.0)])
def test_a_backend_that_computes_beyond_its_promise_is_stalled(within_s, noticed_at):
    samples = [busy(second / 4, thread_waits=second) for second in range(200)]
    assert first_verdict(samples, promised(within_s)) == (noticed_at, "stalled")


def test_a_backend_that_got_a_quarter_of_a_core_breaks_its_promise_later():
    samples = [busy(second / 16, thread_waits=second) for second in range(200)]
    found = first_verdict(samples, promised(2.0))
    assert found == (10.0 + 4 * 1.75 + 0.25, "stalled")


def test_metrics_that_came_late_prove_no_silence_until_now():
    samples = [busy(second / 4, thread_waits=second) for second in range(200)]
    assert first_verdict(samples, promised(2.0), scrape_s=3.0) == (15.0, "stalled")


@pytest.mark.parametrize(("in_flight", "expected"), [(0, None), (1, (2.0, "stalled"))])
def test_a_backend_that_holds_requests_outside_execute_is_not_idle(in_flight, expected):
    progress = ModelProgress(in_flight=in_flight, within_s=2.5)
    assert first_verdict([IDLE] * 40, lambda _: progress) == expected


def test_a_models_own_limit_holds_for_every_kind_of_stall():
    limits = StallLimits(blocked_s=7.0, promised_s=7.0, busy_s=7.0)
    assert first_verdict([BLOCKED] * 100, limits=limits) == (7.0, "stalled")
    assert first_verdict([busy(second / 4) for second in range(100)], limits=limits) == (7.0, "stalled")


def test_being_idle_once_starts_the_clock_anew():
    assert first_verdict(([BLOCKED] * 7 + [IDLE]) * 20) is None
