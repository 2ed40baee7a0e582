"""Sampling, against straightforward arithmetic on one row at a time."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_fakes import Recorder
from trireme_llm.choice import Choice
from trireme_llm.errors import InvalidRequest
from trireme_llm.request import Request, SamplingParams
from trireme_llm.sampler import TokenSampler
from trireme_llm.sequence import Sequence
from trireme_llm.stops import StopFinder
from trireme_llm.truncation import draw_truncated

SIZE = 50


def choice(prompt=(1, 2), output=(), seed=0, number=0, end_ids=(), **fields) -> Choice:
    sampling = SamplingParams(**fields)
    request = Request(prompt=tuple(prompt), sink=Recorder(), sampling=sampling)
    sequence = Sequence(
        request=request,
        choice=number,
        order=0,
        max_length=100,
        root_hash=b"",
        tokens=[*prompt, *output],
        num_prompt_tokens=len(prompt),
    )
    return Choice(sequence=sequence, seed=seed, end_ids=frozenset(end_ids), stops=StopFinder((), ()))


def logits(rows: int = 1, seed: int = 0) -> torch.Tensor:
    return torch.randn((rows, SIZE), generator=torch.Generator().manual_seed(seed)) * 3


def sample(row: torch.Tensor, each: Choice):
    (token,) = TokenSampler().sample(row.clone(), [each])
    return token


def expected_probabilities(row: torch.Tensor, params: SamplingParams) -> np.ndarray:
    """Top-k, then top-p over what is left, then min-p; float64."""
    values = row.double().numpy()
    order = np.argsort(-values)
    kept = order[: params.top_k or len(values)]
    within = np.exp(values[kept] - values[kept].max())
    within /= within.sum()
    before = np.cumsum(within) - within
    keep = (before < params.top_p) | (params.top_p >= 1)
    keep &= values[kept] >= values.max() + (math.log(params.min_p) if params.min_p else -math.inf)
    probabilities = np.zeros(len(values))
    probabilities[kept[keep]] = within[keep] / within[keep].sum()
    return probabilities


TRUNCATIONS = st.builds(
    SamplingParams,
    top_k=st.none() | st.integers(1, 60),
    top_p=st.floats(0.01, 1.0),
    min_p=st.floats(0.0, 0.9),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(TRUNCATIONS, min_size=1, max_size=4), st.integers(0, 1000))
def test_tokens_are_drawn_with_exactly_the_probabilities_that_truncation_leaves(several, seed):
    draws = 2000
    uniforms = (torch.arange(draws, dtype=torch.float64) + 0.5) / draws
    rows = logits(len(several), seed)
    for index, params in enumerate(several):
        drawn = draw_truncated(rows[index].expand(draws, -1), [params] * draws, uniforms)
        frequencies = np.bincount(drawn.numpy(), minlength=SIZE) / draws
        assert np.abs(frequencies - expected_probabilities(rows[index], params)).max() <= 1.01 / draws


def test_a_row_that_the_first_look_does_not_settle_is_drawn_exactly_too():
    flat = torch.randn((1, 5000), generator=torch.Generator().manual_seed(1)) * 0.1
    for params in (SamplingParams(top_p=0.9), SamplingParams(top_k=3000), SamplingParams(min_p=0.3), SamplingParams()):
        draws = 4000
        uniforms = (torch.arange(draws, dtype=torch.float64) + 0.5) / draws
        drawn = torch.cat([draw_truncated(flat, [params], u[None]) for u in uniforms[::40]])
        probabilities = expected_probabilities(flat[0], params)
        assert (probabilities[drawn.numpy()] > 0).all()
        order = np.argsort(-flat[0].numpy())
        cumulative = np.cumsum(probabilities[order])
        exact = order[np.searchsorted(cumulative, uniforms[::40].numpy(), side="right")]
        assert (drawn.numpy() == exact).mean() > 0.99  # the rest fall on a boundary


def test_temperature_zero_takes_the_likeliest():
    row = logits()
    assert sample(row, choice(temperature=0)).id == row[0].argmax()


def test_the_same_seed_gives_the_same_tokens_whoever_shares_the_batch():
    row = logits()
    alone = [sample(row, choice(output=range(n), seed=7)).id for n in range(20)]
    crowd = []
    for n in range(20):
        others = [choice(seed=i, top_k=i + 1, temperature=0.5) for i in range(5)]
        tokens = TokenSampler().sample(torch.cat([logits(5, seed=3), row]), [*others, choice(output=range(n), seed=7)])
        crowd.append(tokens[-1].id)
    assert alone == crowd
    assert alone != [sample(row, choice(output=range(n), seed=8)).id for n in range(20)]
    assert alone != [sample(row, choice(output=range(n), seed=7, number=1)).id for n in range(20)]


def adjusted(row, **fields):
    changed = row.clone()
    TokenSampler().sample(changed, [choice(**fields)])
    return changed[0]


def test_presence_and_frequency_penalties_count_the_output_only():
    row = logits()
    found = adjusted(row, prompt=(5,), output=(3, 3, 4), presence_penalty=0.5, frequency_penalty=0.25)
    expected = row[0].clone()
    expected[3] -= 0.5 + 2 * 0.25
    expected[4] -= 0.5 + 0.25
    torch.testing.assert_close(found, expected)


def test_repetition_penalty_counts_the_prompt_and_divides_or_multiplies_by_sign():
    row = logits()
    found = adjusted(row, prompt=(5, 5), output=(3,), repetition_penalty=2.0)
    expected = row[0].clone()
    for token in (3, 5):
        expected[token] = expected[token] / 2 if expected[token] > 0 else expected[token] * 2
    torch.testing.assert_close(found, expected)


def test_penalties_touch_their_own_row_only():
    rows = logits(3)
    changed = rows.clone()
    plain, penalized = choice(), choice(output=(1, 2, 3), repetition_penalty=1.5, presence_penalty=1.0)
    TokenSampler().sample(changed, [plain, penalized, plain])
    assert torch.equal(changed[[0, 2]], rows[[0, 2]])
    assert not torch.equal(changed[1], rows[1])


def test_logit_bias_moves_the_choice():
    assert sample(logits(), choice(temperature=0, logit_bias={17: 100.0})).id == 17


def test_only_allowed_tokens_are_chosen_and_banned_ones_never():
    row = logits()
    order = row[0].argsort(descending=True).tolist()
    assert sample(row, choice(temperature=0, allowed_token_ids=tuple(order[3:6]))).id == order[3]
    assert sample(row, choice(temperature=0, banned_token_ids=tuple(order[:2]))).id == order[2]


def test_when_nothing_is_left_the_request_fails_and_its_neighbours_do_not():
    both = [choice(allowed_token_ids=(4,), banned_token_ids=(4,)), choice(temperature=0)]
    failed, token = TokenSampler().sample(logits(2), both)
    assert isinstance(failed, InvalidRequest)
    assert token.id == logits(2)[1].argmax()


def test_end_tokens_are_not_chosen_before_min_tokens():
    row = logits()
    best, second = row[0].argsort(descending=True)[:2].tolist()
    assert sample(row, choice(temperature=0, output=(1,), min_tokens=2, end_ids=(best,))).id == second
    assert sample(row, choice(temperature=0, output=(1, 1), min_tokens=2, end_ids=(best,))).id == best


@pytest.mark.parametrize("top", [0, 3])
def test_logprobs_are_those_of_the_model_before_anything_was_adjusted(top):
    row = logits()
    token = sample(row, choice(temperature=0, logit_bias={17: 100.0}, logprobs=top))
    expected = row[0].log_softmax(-1)
    assert token.logprobs.chosen == pytest.approx(expected[17].item(), abs=1e-5)
    assert [i for i, _ in token.logprobs.top] == expected.argsort(descending=True)[:top].tolist()
    assert [v for _, v in token.logprobs.top] == pytest.approx(expected.sort(descending=True).values[:top].tolist())
