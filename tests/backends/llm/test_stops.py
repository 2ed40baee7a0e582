"""Stop sequences and end tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_fakes import FakeSampler, fake_engine, request, run
from trireme_llm.engine import Vocabulary
from trireme_llm.errors import InvalidRequest
from trireme_llm.request import FinishReason, SamplingParams
from trireme_llm.stops import StopFinder, Token


class Script(FakeSampler):
    """Says the same tokens to everyone, one after the other."""

    def __init__(self, tokens) -> None:
        self.tokens = tokens

    def sample(self, logits, choices):
        return [Token(self.tokens[choice.sequence.num_output_tokens]) for choice in choices]


PIECES = [b"a", b"b", b"ab", b"abc", b"c", b"\xc3", b"\xa4", b"xy", b""]


def say(tokens, **fields):
    engine = fake_engine(Vocabulary(size=256, end_ids=frozenset({0}), token_bytes=PIECES * 30))
    engine.sampler = Script(tokens)
    asked = request(5, len(tokens), **fields)
    engine.add(asked)
    run(engine)
    return asked.sink


STOPS = st.lists(st.sampled_from([b"ab", b"bca", b"\xc3\xa4", b"xyx"]), max_size=3)


@given(st.lists(st.integers(1, 8), max_size=30), STOPS)
def test_the_text_before_the_first_stop_sequence_comes_out_exactly(ids, stops):
    finder = StopFinder(stops, PIECES)
    text = b""
    found = False
    for token_id in ids:
        released = finder.push(Token(token_id))
        text += b"".join(PIECES[token.id] for token in released.tokens)
        text = text[: len(text) - released.trim_bytes]
        if released.found:
            found = True
            break
    text += b"".join(PIECES[token.id] for token in finder.flush()) if not found else b""
    whole = b"".join(PIECES[i] for i in ids)
    starts = [whole.find(stop) for stop in stops if stop in whole]
    assert found == bool(starts)
    if not starts:
        assert text == whole
    else:
        assert not any(stop in text for stop in stops)
        assert whole.startswith(text)
        assert any(whole[len(text) :].startswith(stop) for stop in stops)


def test_a_token_is_held_back_only_while_it_may_begin_a_stop_sequence():
    finder = StopFinder([b"abc"], PIECES)
    assert [t.id for t in finder.push(Token(7)).tokens] == [7]
    assert not finder.push(Token(2)).tokens  # ab
    assert [t.id for t in finder.push(Token(7)).tokens] == [2, 7]  # abxy


def test_a_stop_sequence_inside_a_token_trims_that_token():
    sink = say([7, 3, 7], stop_sequences=(b"bc",))
    assert sink.final.finish_reason is FinishReason.STOP
    assert sink.tokens() == [7, 3]
    assert sink.final.trim_bytes == 2


def test_held_tokens_come_out_when_the_output_ends_otherwise():
    sink = say([7, 2], stop_sequences=(b"abc",))
    assert sink.final.finish_reason is FinishReason.LENGTH
    assert sink.tokens() == [7, 2]


def test_token_zero_is_a_valid_end_of_sequence():
    sink = say([1, 2, 0, 3])
    assert (sink.final.finish_reason, sink.tokens()) == (FinishReason.STOP, [1, 2])
    assert sink.final.stop_token_id == 0
    assert sink.final.num_output_tokens == 3


def test_ignore_eos_goes_on_but_stop_tokens_still_end():
    assert say([1, 0, 3, 4], ignore_eos=True).tokens() == [1, 0, 3, 4]
    assert say([1, 0, 3, 4], ignore_eos=True, stop_token_ids=(3,)).tokens() == [1, 0]


def test_stop_sequences_are_not_looked_for_before_min_tokens():
    assert say([2, 2, 7, 2, 7], min_tokens=2, stop_sequences=(b"ab",)).tokens() == [2, 2, 7]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("top_k", 0),
        ("min_p", 1.5),
        ("n", 0),
        ("max_tokens", 0),
        ("min_tokens", -1),
        ("presence_penalty", 3.0),
        ("repetition_penalty", 0.0),
        ("logprobs", 21),
        ("stop_sequences", (b"",)),
        ("allowed_token_ids", ()),
        ("logit_bias", {1: float("inf")}),
    ],
)
def test_a_field_out_of_range_is_refused_by_name(field, value):
    with pytest.raises(InvalidRequest, match=field):
        SamplingParams(**{field: value})
