"""The stage `tokenize_pairs` against the tokenizers library."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors
from trireme_triton.parameters import InvalidParameter
from trireme_triton.tensors import InvalidRequest

shared_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
FAMILIES = ["bert", "roberta"]
TEXTS = st.text(max_size=25)


@pytest.fixture(scope="session")
def pair_files(tokenizer_files):
    """`[CLS] a [SEP] b [SEP]` with types 0 and 1, and `<s> a </s></s> b </s>` with one type for all."""
    roberta = Tokenizer.from_str(tokenizer_files["llama"].decode())
    roberta.add_special_tokens(["</s>"])
    ids = [(token, roberta.token_to_id(token)) for token in ("<s>", "</s>")]
    roberta.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ids
    )
    return {"bert": tokenizer_files["bert"], "roberta": roberta.to_str().encode()}


@pytest.fixture
def tokenize(load, pair_files):
    def make(family="bert", **parameters):
        given = {key: str(value) for key, value in {"max_length": 1000, "token_types": "true", **parameters}.items()}
        return load("tokenize_pairs", given, {"tokenizer.json": pair_files[family]})

    return make


@pytest.fixture
def library(pair_files):
    def make(family):
        tokenizer = Tokenizer.from_str(pair_files[family].decode())
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    return make


def request(*pairs):
    queries, texts = zip(*pairs, strict=True)
    return {
        name: np.array([[text if isinstance(text, bytes) else text.encode()] for text in column], object)
        for name, column in (("query", queries), ("text", texts))
    }


@pytest.mark.parametrize("family", FAMILIES)
@shared_files
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
def test_ids_and_types_are_those_of_the_library(tokenize, library, family, pairs):
    answers = tokenize(family).answer([request(pair) for pair in pairs])
    for pair, answer in zip(pairs, answers, strict=True):
        expected = library(family).encode(*pair)
        assert answer["input_ids"].tolist() == [expected.ids]
        assert answer["token_type_ids"].tolist() == [list(expected.type_ids) or 0]
        assert answer["attention_mask"].tolist() == [[1] * len(expected.ids)]
        assert answer["windows"].tolist() == [[1]]


@pytest.mark.parametrize("family", FAMILIES)
@shared_files
@given(st.text(max_size=4), st.text(max_size=60), st.integers(24, 40), st.integers(0, 5))
def test_every_window_of_a_long_text_has_the_whole_query(tokenize, library, family, query, text, max_length, overlap):
    tokenizer = library(family)
    if len(tokenizer.encode(query, add_special_tokens=False).ids) > (max_length - 4) // 2:
        return
    stage = tokenize(family, max_length=max_length, window_overlap=overlap, max_windows=500)
    (answer,) = stage.answer([request((query, text))])
    tokenizer.enable_truncation(max_length, stride=overlap, strategy="only_second")
    whole = tokenizer.encode(query, text)
    windows = [whole, *whole.overflowing]
    assert answer["input_ids"][0].tolist() == list(chain(*(window.ids for window in windows)))
    if family == "bert":  # the library gives other types to the later windows of a template without any
        assert answer["token_type_ids"][0].tolist() == list(chain(*(window.type_ids for window in windows)))
    numbers = ([number] * len(window.ids) for number, window in enumerate(windows, start=1))
    assert answer["attention_mask"][0].tolist() == list(chain(*numbers))
    assert answer["windows"].tolist() == [[len(windows)]]


@shared_files
@given(st.lists(st.lists(st.tuples(TEXTS, st.text(max_size=40)), min_size=1, max_size=3), min_size=1, max_size=3))
def test_a_request_is_answered_the_same_alone_and_among_others(tokenize, requests):
    stage = tokenize(max_length=24, window_overlap=3)
    batch = [request(*pairs) for pairs in requests]
    for together, inputs in zip(stage.answer(batch), batch, strict=True):
        (alone,) = stage.answer([inputs])
        if isinstance(alone, InvalidRequest):
            assert str(together) == str(alone)
            continue
        assert all(np.array_equal(together[name], alone[name]) for name in alone)


@pytest.mark.parametrize(
    ("query", "text", "said"),
    [
        ("q" * 9, "text", "input 'query', item 1: 9 tokens; at most 8 are allowed, half of the room in a window of 20"),
        ("query", "t" * 40, r"input 'text', item 1: 40 tokens, which is 4 windows of 12 tokens beside the query"),
        (b"\xff", "text", "input 'query', item 1: not UTF-8: byte 0xff at offset 0"),
        ("query", "t" * 101, "input 'text', item 1: 101 bytes; at most 100 are allowed"),
    ],
)
def test_a_pair_that_does_not_fit_is_refused_and_harms_no_other_request(tokenize, query, text, said):
    stage = tokenize(max_length=20, max_windows=3, window_overlap=2, max_bytes=100)
    good = request(("q" * 8, "a"), ("", ""))
    before, refused, after = stage.answer([good, request(("fine", "fine"), (query, text)), good])
    assert isinstance(refused, InvalidRequest)
    with pytest.raises(InvalidRequest, match=said):
        raise refused
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_inputs_of_different_lengths_are_refused(tokenize):
    inputs = request(("a", "b")) | {"text": request(("a", "b"), ("a", "c"))["text"]}
    (refused,) = tokenize().answer([inputs])
    assert str(refused) == "inputs 'query' and 'text' have 1 and 2 items; they must have as many"


@pytest.mark.parametrize("text", ["", "a\0", "🚣🏽‍♀️", "三段櫂船", "שלום", "x" * 100_000])
def test_every_byte_of_both_texts_reaches_the_tokenizer(tokenize, text):
    stage = tokenize("roberta", max_length=300_000)
    (answer,) = stage.answer([request((text[:50], text))])
    assert answer["input_ids"].shape == (1, 4 + len(text[:50].encode()) + len(text.encode()))


def test_types_are_given_only_when_asked_for(tokenize):
    (answer,) = tokenize(token_types="false").answer([request(("a", "b"))])
    assert sorted(answer) == ["attention_mask", "input_ids", "windows"]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"max_length": 20, "window_overlap": 9}, "'max_length' is 20; beside 3 special tokens, half of it"),
        ({"pooling": "mean"}, "unknown parameter 'pooling'; known are max_bytes, max_length"),
        ({"token_types": "yes"}, "'token_types' is 'yes'; it must be true or false"),
    ],
)
def test_parameters_that_cannot_be_right_keep_the_model_from_loading(tokenize, parameters, said):
    with pytest.raises(InvalidParameter, match=said):
        tokenize(**parameters)


def test_a_tokenizer_that_frames_texts_otherwise_keeps_the_model_from_loading(load, tokenizer_files):
    tokenizer = Tokenizer.from_str(tokenizer_files["llama"].decode())
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $B $A", special_tokens=[("<s>", 0)]
    )
    with pytest.raises(InvalidParameter, match="does not lay two texts side by side"):
        load("tokenize_pairs", {"max_length": "20"}, {"tokenizer.json": tokenizer.to_str().encode()})
