"""Where tokens stand in their text, and which window of a long text answers for each."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from trireme_stages.windows import WindowPlan

shared_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def tokenize(load, tokenizer_files):
    def make(family="bert", **parameters):
        files = {"tokenizer.json": family if isinstance(family, bytes) else tokenizer_files[family]}
        given = {"max_length": 10_000, "token_spans": "true", **parameters}
        return load("tokenize", {key: str(value) for key, value in given.items()}, files)

    return make


def sentence_pieces():
    """A tokenizer that takes the space before a word for a part of it, as sentencepiece does."""
    pieces = [("<unk>", 0.0), *((piece, -1.0) for piece in ("▁a", "▁row", "s", "▁", "row"))]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer.to_str().encode()


def request(*texts):
    return {"text": np.array([[text.encode()] for text in texts], object)}


def spans_of(stage, text):
    (answer,) = stage.answer([request(text)])
    return answer["token_spans"][0].tolist()


def pieces(text, spans):
    return [text[start:end] for start, end, _ in spans if start >= 0]


def test_special_tokens_and_padding_stand_nowhere(tokenize):
    (answer,) = tokenize(pad_to_multiple_of=4).answer([request("hello world", "hello")])
    nowhere = [-1, -1, -1]
    assert answer["token_spans"].tolist() == [
        [nowhere, [0, 5, 0], [6, 11, 1], nowhere],
        [nowhere, [0, 5, 0], nowhere, nowhere],
    ]


@pytest.mark.parametrize(
    ("family", "text", "expected"),
    [
        ("bert", "  hello,  world ", ["hello", ",", "world"]),
        ("bert", "cafe\u0301 x", ["c", "a", "f", "e\u0301", "x"]),
        ("bert", "e\u0301", ["e\u0301"]),
        ("bert", "🚣🏽‍♀️ 三段", ["🚣🏽‍♀️", "三", "段"]),
        ("bert", "שלום", ["שלום"]),
        ("llama", " a🚣", ["a", *"🚣🚣🚣🚣"]),
        ("llama", "\t \u00a0", []),
        ("llama", "a\0", ["a", "\0"]),
        (sentence_pieces(), "  a rows  row", ["a", "row", "s", "row"]),
        (sentence_pieces(), "三段 a", ["三", "三段", "a"]),
        ("bert", "", []),
    ],
)
def test_a_token_stands_where_its_characters_are_without_spaces(tokenize, family, text, expected):
    assert pieces(text, spans_of(tokenize(family), text)) == expected


def test_the_tokens_of_a_word_have_its_number(tokenize):
    assert [word for _, _, word in spans_of(tokenize(), "rows, hello")[1:-1]] == [0, 0, 0, 0, 1, 2]


@pytest.mark.parametrize("family", ["bert", "gpt2", "xlnet", "twice"])
@shared_files
@given(st.text(min_size=1, max_size=60))
def test_every_visible_character_is_in_a_span_and_spans_follow_each_other(tokenize, family, text):
    spans = spans_of(tokenize(family, max_length=10_000), text)
    own = [(start, end) for start, end, _ in spans if start >= 0]
    assert own == sorted(own)
    assert all(0 <= start < end <= len(text) for start, end in own)
    assert all(text[start:end].strip() == text[start:end] for start, end in own)
    if family != "bert":  # which drops control characters
        covered = {place for start, end in own for place in range(start, end)}
        assert covered >= {place for place, character in enumerate(text) if not character.isspace()}


@pytest.mark.parametrize("family", ["bert", "gpt2", "twice"])
@shared_files
@given(st.text(min_size=1, max_size=80), st.integers(6, 12), st.integers(0, 2))
def test_every_token_of_a_long_text_stands_in_one_window(tokenize, family, text, max_length, overlap):
    whole = spans_of(tokenize(family), text)
    split = tokenize(family, max_length=max_length, window_overlap=overlap, long_text="windows", max_windows=500)
    (answer,) = split.answer([request(text)])
    assert answer["token_spans"].shape[1] == answer["input_ids"].shape[1]
    placed = answer["token_spans"][0]
    assert placed[placed[:, 0] >= 0].tolist() == [span for span in whole if span[0] >= 0]


@given(st.integers(1, 200), st.integers(1, 20), st.integers(0, 19))
def test_a_token_is_answered_for_where_most_of_the_text_around_it_is_seen(tokens, content, overlap):
    if overlap >= content:
        return
    plan = WindowPlan(max_length=content + 2, overlap=overlap, prefix=(1,), suffix=(2,))
    windows = plan.contents(tokens)
    assert [len(part) - 2 for part in plan.split([1, *[3] * tokens, 2])] == [len(window) for window in windows]

    def seen(token, number):
        """How many tokens to the side on which fewer are seen; there are none to miss beyond an end of the text."""
        window = windows[number]
        before = token - window.start if number else tokens
        return min(before, window.stop - 1 - token if number + 1 < len(windows) else tokens)

    answers = plan.answers(tokens)
    assert [token for own in answers for token in own] == list(range(tokens))
    for number, own in enumerate(answers):
        for token in own:
            others = [other for other, window in enumerate(windows) if token in window]
            assert number == max(others, key=lambda other: (seen(token, other), -other))


def test_a_text_of_100_kb_has_all_its_tokens_placed(tokenize):
    text = "x y 🚣" * 20_000
    stage = tokenize("llama", max_length=512, window_overlap=64, long_text="windows", max_windows=1000)
    placed = spans_of(stage, text)
    assert sum(start >= 0 for start, _, _ in placed) == 20_000 * 6


def test_texts_are_answered_the_same_alone_and_among_others(tokenize):
    stage = tokenize("llama", max_length=12, window_overlap=3, long_text="windows", max_windows=50)
    texts = ["", "a b", "🚣" * 9, "the quick brown fox jumps"]
    (together,) = stage.answer([request(*texts)])
    for row, text in zip(together["token_spans"], texts, strict=True):
        alone = spans_of(stage, text)
        assert row[: len(alone)].tolist() == alone
        assert (row[len(alone) :] == -1).all()
