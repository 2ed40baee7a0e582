"""What holds under any load: every request ends once, with the tokens it gets alone, and no block is lost."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_fakes import expected_output, fake_engine, request
from trireme_llm.request import FinishReason

PROMPTS = st.lists(st.integers(0, 3), min_size=1, max_size=40).map(tuple)  # few tokens: prefixes are often shared


@st.composite
def loads(draw):
    """Limits, and a stream of arrivals with the steps between them."""
    block_size = draw(st.sampled_from([1, 2, 4, 16]))
    max_running = draw(st.integers(1, 8))
    limits = {
        "block_size": block_size,
        "num_blocks": draw(st.integers(-(-60 // block_size), 120 // block_size + 4)),
        "max_running": max_running,
        "max_batch_tokens": draw(st.integers(max_running, 64)),
    }
    arrival = st.tuples(PROMPTS, st.integers(1, 20), st.integers(1, 3), st.integers(-1, 1), st.integers(0, 6))
    return limits, draw(st.lists(arrival, min_size=1, max_size=30)), draw(st.sets(st.integers(0, 29), max_size=5))


def check_blocks(engine) -> None:
    pool, config = engine.scheduler.pool, engine.scheduler.config
    held = {}
    for sequence in engine.scheduler.running:
        assert len(sequence.blocks) * config.block_size >= sequence.num_computed
        for block in sequence.blocks:
            held[block] = held.get(block, 0) + 1
    assert [held.get(block, 0) for block in range(pool.num_blocks)] == pool._references
    assert set(pool._free) == set(range(pool.num_blocks)) - set(held)
    assert all(not sequence.blocks for sequence in engine.scheduler.waiting)


@settings(max_examples=300, deadline=None)
@given(loads())
def test_any_load_is_served_exactly_as_if_each_request_were_alone(load):
    limits, arrivals, cancelled = load
    engine = fake_engine(**limits)
    requests = []
    for prompt, max_tokens, n, priority, steps in arrivals:
        requests.append(request(prompt, max_tokens, n=n, priority=priority))
        engine.add(requests[-1])
        for _ in range(steps):
            engine.step()
            check_blocks(engine)
    for index in cancelled & set(range(len(requests))):
        requests[index].sink.cancelled = True
    steps = 0
    while engine.busy:
        engine.step()
        check_blocks(engine)
        steps += 1
        assert steps < 20_000
    for index, each in enumerate(requests):
        assert sorted(final.choice for final in each.sink.finals) == list(range(each.sampling.n))
        for final in each.sink.finals:
            tokens = each.sink.tokens(final.choice)
            assert tokens == expected_output(each.prompt, len(tokens))
            if index not in cancelled:
                assert final.finish_reason is FinishReason.LENGTH
                assert len(tokens) == each.sampling.max_tokens
    assert engine.scheduler.pool.num_free == engine.scheduler.pool.num_blocks
    assert not engine.scheduler._being_computed


@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_steps_of_random_load_end_every_request(seed):
    engine = fake_engine(num_blocks=20, block_size=4, max_running=8, max_batch_tokens=24)
    random = Random(seed)
    requests = []
    for _ in range(3000):
        if random.random() < 0.15:
            prompt = tuple(random.randrange(3) for _ in range(random.randrange(1, 40)))
            requests.append(request(prompt, random.randrange(1, 30)))
            engine.add(requests[-1])
        if random.random() < 0.01 and requests:
            random.choice(requests).sink.cancelled = True
        engine.step()
    while engine.busy:
        engine.step()
    for each in requests:
        tokens = each.sink.tokens()
        assert tokens == expected_output(each.prompt, len(tokens))
        assert each.sink.final.finish_reason in (FinishReason.LENGTH, FinishReason.CANCELLED)
    assert engine.scheduler.pool.num_free == 20
