"""Scheduling policy, with a fake model that reads its whole prefix back from the blocks."""

import time

import pytest
from llm_fakes import Recorder, expected_output, fake_engine, request, run
from trireme_llm.errors import EngineStopped, InvalidRequest
from trireme_llm.request import FinishReason, Request, SamplingParams
from trireme_llm.scheduler import PRIORITY_HEAD_START, Scheduler, SchedulerConfig


def serve(engine, *requests: Request) -> None:
    for each in requests:
        engine.add(each)
    run(engine)


def assert_answered(each: Request) -> None:
    assert each.sink.final.finish_reason is FinishReason.LENGTH
    assert each.sink.tokens() == expected_output(each.prompt, each.sampling.max_tokens)


def assert_clean(engine) -> None:
    scheduler = engine.scheduler
    assert scheduler.pool.num_free == scheduler.pool.num_blocks
    assert not scheduler._being_computed
    assert not engine._choices


def test_two_requests_that_outgrow_the_pool_take_turns():
    engine = fake_engine(num_blocks=20)
    requests = [request(100, 200), request(99, 200)]
    serve(engine, *requests)
    for each in requests:
        assert_answered(each)
    assert engine.scheduler.stats.preemptions > 0
    assert_clean(engine)


def test_a_prompt_of_whole_blocks_is_right_each_of_three_times():
    engine = fake_engine()
    for _ in range(3):
        again = request(64, 20)
        serve(engine, again)
        assert_answered(again)
    assert again.sink.final.num_cached_tokens == 48  # all but the block whose last token is needed
    assert_clean(engine)


def test_a_prompt_larger_than_the_pool_is_refused_at_once_with_both_sizes():
    engine = fake_engine(num_blocks=4)
    large = request(80, 1)
    engine.add(large)
    assert isinstance(large.sink.final.error, InvalidRequest)
    assert "80" in str(large.sink.final.error)
    assert "64" in str(large.sink.final.error)
    assert not engine.busy


def test_a_request_that_fits_the_pool_exactly_is_served():
    engine = fake_engine(num_blocks=4)
    exact = request(60, 5)  # 64 computed tokens, and a last one that needs no block
    serve(engine, exact)
    assert_answered(exact)
    beyond = request(60, 6)
    engine.add(beyond)
    assert "together at most 65" in str(beyond.sink.final.error)


def test_a_cancelled_request_frees_its_blocks_within_two_steps():
    engine = fake_engine(num_blocks=700, max_length=20_000)
    long = request(20, 10_000)
    engine.add(long)
    for _ in range(3):
        engine.step()
    long.sink.cancelled = True
    engine.step()
    engine.step()
    assert long.sink.final.finish_reason is FinishReason.CANCELLED
    assert long.sink.tokens() == expected_output(long.prompt, 3)
    assert_clean(engine)


def test_three_hundred_requests_at_once_on_a_pool_for_ten():
    engine = fake_engine(num_blocks=40, max_running=64)
    requests = [request(17 + i % 30, 20) for i in range(300)]
    serve(engine, *requests)
    for each in requests:
        assert_answered(each)
    assert_clean(engine)


def test_a_deadline_ends_a_request_that_waits_and_one_that_runs():
    engine = fake_engine(max_running=1)
    now = time.monotonic()
    runs, waits = request(20, 1000, deadline=now + 0.05), request(30, 10, deadline=now + 0.05)
    engine.add(runs)
    engine.add(waits)
    engine.step()
    time.sleep(0.06)
    run(engine)
    assert [each.sink.final.finish_reason for each in (runs, waits)] == [FinishReason.DEADLINE] * 2
    assert len(runs.sink.tokens()) == 1
    assert_clean(engine)


def test_a_prompt_waits_until_there_are_blocks_for_all_of_it():
    engine = fake_engine(num_blocks=10)
    first, second = request(100, 30), request(60, 4)
    engine.add(first)
    engine.add(second)
    engine.step()
    assert [len(s.tokens) for s in engine.scheduler.running] == [101]
    run(engine)
    assert_answered(first)
    assert_answered(second)


def test_a_step_never_exceeds_its_token_budget_and_decodes_come_first():
    engine = fake_engine(max_batch_tokens=32, max_running=8)
    short, long = request(5, 20), request(200, 4)
    engine.add(short)
    engine.step()
    engine.add(long)
    while engine.busy:
        before = engine.runner.num_tokens
        tokens = len(short.sink.tokens())
        engine.step()
        assert engine.runner.num_tokens - before <= 32
        assert len(short.sink.tokens()) in (tokens + 1, 20)
    assert_answered(long)


def test_requests_of_one_priority_start_in_order_of_arrival():
    engine = fake_engine(max_running=1)
    started = []
    requests = [request(20 + i, 2) for i in range(5)]
    for each in requests:
        engine.add(each)
    while engine.busy:
        engine.step()
        started += [r for r in requests if r.sink.outputs and r not in started]
    assert started == requests


def test_a_higher_priority_overtakes_but_only_by_its_head_start():
    scheduler = Scheduler(SchedulerConfig(num_blocks=100, max_length=1000))
    first = scheduler.add(request(20, 2), b"")[0]
    urgent = [scheduler.add(request(20, 2, priority=-1), b"")[0] for _ in range(PRIORITY_HEAD_START + 1)]
    assert scheduler.waiting[0] is urgent[0]
    assert scheduler.waiting[-1] is urgent[-1]
    assert scheduler.waiting.index(first) < PRIORITY_HEAD_START + 1


def test_a_prefix_that_is_being_computed_is_not_computed_again():
    engine = fake_engine(num_blocks=200)
    shared = tuple(range(160))
    requests = [request((*shared, 200 + i, 3), 4) for i in range(8)]
    serve(engine, *requests)
    assert all(each.sink.tokens() == expected_output(each.prompt, 4) for each in requests)
    assert engine.runner.num_tokens == 162 + 7 * 2 + 8 * 3
    assert [each.sink.final.num_cached_tokens for each in requests] == [0] + [160] * 7


def test_choices_share_the_blocks_of_their_prompt():
    engine = fake_engine(num_blocks=100)
    three = request(64, 4, n=3)
    serve(engine, three)
    assert sorted(final.choice for final in three.sink.finals) == [0, 1, 2]
    assert all(three.sink.tokens(choice) == expected_output(three.prompt, 4) for choice in range(3))
    assert engine.runner.num_tokens == 64 + 2 * 16 + 3 * 3


def test_a_conversation_finds_the_blocks_of_its_earlier_answer():
    engine = fake_engine()
    first = request(30, 40)
    serve(engine, first)
    followup = request((*first.prompt, *first.sink.tokens(), 1, 2, 3), 4)
    serve(engine, followup)
    assert followup.sink.final.num_cached_tokens == 64
    assert followup.sink.tokens() == expected_output(followup.prompt, 4)


def test_the_least_recently_used_blocks_are_reused_first():
    engine = fake_engine(num_blocks=10)
    old, recent = request(64, 1), request(65, 1)
    serve(engine, old)
    serve(engine, recent)
    serve(engine, request(70, 1))
    again = request(65, 1)
    serve(engine, again)
    assert again.sink.final.num_cached_tokens == 64
    forgotten = request(64, 1)
    serve(engine, forgotten)
    assert forgotten.sink.final.num_cached_tokens < 48


def test_without_max_tokens_a_request_runs_to_the_longest_that_fits():
    engine = fake_engine(num_blocks=4)
    open_end = request(10, None)
    serve(engine, open_end)
    assert len(open_end.sink.tokens()) == 55


def test_a_sink_that_raises_ends_its_own_request_only():
    engine = fake_engine()
    broken, fine = request(10, 20), request(11, 20)
    broken.sink.fail_at = 3
    serve(engine, broken, fine)
    assert broken.sink.final.finish_reason is FinishReason.ERROR
    assert_answered(fine)
    assert_clean(engine)


def test_a_failed_step_is_answered_to_those_in_it_and_the_engine_goes_on():
    engine = fake_engine()
    engine.runner.fail_steps = {3}
    unlucky = request(10, 20)
    engine.add(unlucky)
    engine.step()
    engine.step()
    engine.step()
    assert "broke" in str(unlucky.sink.final.error)
    later = request(10, 20)
    serve(engine, later)
    assert_answered(later)
    assert engine.healthy
    assert_clean(engine)


def test_repeated_failures_make_the_engine_unhealthy_and_nobody_is_left_waiting():
    engine = fake_engine(max_running=1)
    engine.runner.fail_steps = set(range(100))
    requests = [request(10 + i, 5) for i in range(6)]
    serve(engine, *requests)
    assert all(each.sink.final.finish_reason is FinishReason.ERROR for each in requests)
    assert not engine.healthy
    late = request(5, 5)
    engine.add(late)
    assert isinstance(late.sink.final.error, EngineStopped)


@pytest.mark.parametrize("bad", [-1, 256])
def test_a_token_outside_the_vocabulary_is_refused_by_its_number(bad):
    engine = fake_engine()
    wrong = request((1, bad, 2), 5)
    engine.add(wrong)
    assert str(bad) in str(wrong.sink.final.error)


def test_an_empty_prompt_is_refused():
    engine = fake_engine()
    empty = request((), 5)
    engine.add(empty)
    assert isinstance(empty.sink.final.error, InvalidRequest)


def test_every_choice_of_a_refused_request_gets_its_answer():
    engine = fake_engine(num_blocks=2)
    refused = Request(prompt=(1,) * 40, sink=Recorder(), sampling=SamplingParams(n=3))
    engine.add(refused)
    assert [final.choice for final in refused.sink.finals] == [0, 1, 2]


def test_nothing_grows_over_ten_thousand_requests():
    engine = fake_engine(num_blocks=64, max_running=16)
    for i in range(10_000):
        engine.add(request((i % 251, i % 7, i % 13), 2))
        if i % 16 == 15:
            run(engine)
    run(engine)
    assert_clean(engine)
    assert engine.scheduler.pool.num_cached <= 64
    assert not engine.scheduler.waiting
    assert not engine.scheduler.running
