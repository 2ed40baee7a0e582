"""The stage `tokenize` against transformers and the tokenizers library."""

import functools
from itertools import chain

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from trireme_stages.tokenizer_file import PART_CHARACTERS, in_parts
from trireme_triton.parameters import InvalidParameter
from trireme_triton.tensors import InvalidRequest

FAMILIES = ["bert", "gpt2", "llama", "t5", "xlnet", "twice"]
shared_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def request(*texts):
    return {"text": np.array([[text if isinstance(text, bytes) else text.encode()] for text in texts], np.object_)}


@pytest.fixture
def tokenize(load, tokenizer_files):
    @functools.cache
    def make(family="bert", **parameters):
        given = {key: str(value) for key, value in {"max_length": 16, **parameters}.items()}
        return load("tokenize", given, {"tokenizer.json": tokenizer_files[family]})

    return make


@pytest.fixture
def reference(tokenizer_files):
    @functools.cache
    def make(family):
        return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(tokenizer_files[family].decode()))

    return make


@pytest.mark.parametrize("family", FAMILIES)
@shared_files
@given(st.lists(st.text(), min_size=1, max_size=5))
def test_ids_and_mask_are_those_of_transformers(tokenize, reference, family, texts):
    answers = tokenize(family, max_length=10_000).answer([request(text) for text in texts])
    for text, answer in zip(texts, answers, strict=True):
        expected = reference(family)(text, truncation=False, padding=False)["input_ids"]
        if not expected:
            assert isinstance(answer, InvalidRequest)
            continue
        assert answer["input_ids"].tolist() == [expected]
        assert answer["attention_mask"].tolist() == [[1] * len(expected)]
        assert answer["windows"].tolist() == [[1]]


@shared_files
@given(st.lists(st.lists(st.text(max_size=40), min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_request_is_answered_the_same_alone_and_among_others(tokenize, requests):
    stage = tokenize(long_text="windows", window_overlap=3)
    batch = [request(*texts) for texts in requests]
    for together, inputs in zip(stage.answer(batch), batch, strict=True):
        (alone,) = stage.answer([inputs])
        if isinstance(alone, InvalidRequest):
            assert str(together) == str(alone)
            continue
        assert all(np.array_equal(together[name], alone[name]) for name in alone)


@shared_files
@given(st.lists(st.text(max_size=60), min_size=1, max_size=4))
def test_rows_of_a_request_are_the_single_rows_padded_to_the_longest(tokenize, texts):
    stage = tokenize(long_text="windows", max_windows=100)
    (together,) = stage.answer([request(*texts)])
    singles = [stage.answer([request(text)])[0] for text in texts]
    length = max(single["input_ids"].shape[1] for single in singles)
    for name in ("input_ids", "attention_mask"):
        padded = [np.pad(single[name][0], (0, length - single[name].shape[1])) for single in singles]
        assert np.array_equal(together[name], padded)
    assert together["windows"].tolist() == [single["windows"][0].tolist() for single in singles]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_long_text_is_laid_out_as_numbered_windows_side_by_side(tokenize, reference, family):
    stage = tokenize(family, max_length=9, window_overlap=2, long_text="windows", max_windows=50)
    text = "abcdefghijklmnopqrstuvwxyz"
    (answer,) = stage.answer([request(text)])

    cut = {"truncation": True, "max_length": 9, "stride": 2, "return_overflowing_tokens": True}
    windows = reference(family)(text, **cut)["input_ids"]
    assert answer["input_ids"][0].tolist() == list(chain(*windows))
    assert answer["attention_mask"][0].tolist() == list(chain(*([n] * len(w) for n, w in enumerate(windows, 1))))
    assert answer["windows"].tolist() == [[len(windows)]]


def test_truncation_and_padding_of_the_tokenizer_file_are_not_applied(tokenize):
    (answer,) = tokenize().answer([request("abcdefgh", "a")])
    assert answer["attention_mask"].sum(axis=1).tolist() == [10, 3]
    assert answer["input_ids"].shape == (2, 10)


@pytest.mark.parametrize(("text", "length"), [("a", 8), ("abcdef", 8), ("abcdefg", 16)])
def test_rows_are_padded_to_a_multiple(tokenize, text, length):
    (answer,) = tokenize(pad_to_multiple_of=8).answer([request(text)])
    assert answer["input_ids"].shape == answer["attention_mask"].shape == (1, length)
    assert np.count_nonzero(answer["attention_mask"]) == len(text) + 2


def test_the_empty_text_is_its_special_tokens(tokenize):
    (answer,) = tokenize().answer([request("")])
    assert answer["input_ids"].tolist() == [[2, 3]]


def test_a_text_without_any_token_is_refused(tokenize):
    (answer,) = tokenize("gpt2").answer([request("a", "")])
    assert str(answer) == "input 'text', item 1: the text has no tokens"
    assert answer.reason == "empty"


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"ok\xff", "byte 0xff at offset 2"),
        (b"\xed\xa0\x80", "byte 0xed at offset 0"),
        (b"abc\xf0\x9f", "byte 0xf0 at offset 3"),
    ],
)
def test_what_is_not_utf8_is_refused_with_its_offset_and_harms_no_one_else(tokenize, raw, found):
    good, bad, also_good = tokenize().answer([request("hello"), request("x", raw), request("world")])
    assert str(bad) == f"input 'text', item 1: not UTF-8: {found}"
    assert bad.reason == "not_utf8"
    assert good["input_ids"].tolist() == [[2, 4, 3]]
    assert also_good["input_ids"].tolist() == [[2, 5, 3]]


@pytest.mark.parametrize("text", ["a\0", "\0\0", "🙂👩‍👩‍👧", "汉字かな", "مرحبا עולם", "é" * 10, "\ufeff\u200b"])
def test_every_byte_of_a_text_reaches_the_tokenizer(tokenize, text):
    (answer,) = tokenize("gpt2", max_length=100).answer([request(text)])
    assert answer["input_ids"].shape == (1, len(text.encode()))


def test_a_text_of_100_kb_is_split_into_windows(tokenize):
    stage = tokenize("llama", max_length=512, long_text="windows", max_windows=1000)
    (answer,) = stage.answer([request("x y " * 25_000)])
    assert answer["windows"].tolist() == [[-(-100_000 // 511)]]


def test_a_long_text_is_refused_with_both_numbers(tokenize):
    (answer,) = tokenize(max_length=8).answer([request("abcdefg")])
    assert str(answer) == (
        "input 'text', item 0: the text has 9 tokens with special tokens; this model takes at most 8"
    )
    assert answer.reason == "too_long"


def test_too_many_windows_are_refused_with_both_numbers(tokenize):
    stage = tokenize(max_length=8, long_text="windows", max_windows=3, window_overlap=2)
    fits, too_long = stage.answer([request("a" * 14), request("a" * 15)])
    assert fits["windows"].tolist() == [[3]]
    assert "17 tokens with special tokens" in str(too_long)
    assert "4 windows of 8 tokens overlapping by 2; this model takes at most 3 windows" in str(too_long)


def test_more_bytes_than_allowed_are_refused_before_they_are_tokenised(tokenize):
    (answer,) = tokenize(max_bytes=10).answer([request("a" * 11)])
    assert str(answer) == "input 'text', item 0: 11 bytes; at most 10 are allowed"


def test_an_empty_batch_is_refused(tokenize):
    (answer,) = tokenize().answer([{"text": np.empty((0, 1), np.object_)}])
    assert "at least one item" in str(answer)


def test_a_window_must_have_room_for_more_than_special_tokens_and_overlap(tokenize):
    with pytest.raises(InvalidParameter, match=r"'max_length' is 8; .* 2 special tokens and a window_overlap of 6"):
        tokenize(max_length=8, window_overlap=6)


def test_a_file_that_is_no_tokenizer_keeps_the_model_from_loading(load):
    with pytest.raises(InvalidParameter, match=r"'tokenizer': .* is not a tokenizer"):
        load("tokenize", {"max_length": "8"}, {"tokenizer.json": b"{}"})
    with pytest.raises(InvalidParameter, match=r"'tokenizer' is 'other\.json'; .* has no such file"):
        load("tokenize", {"max_length": "8", "tokenizer": "other.json"})


def test_a_name_that_no_file_can_have_keeps_the_model_from_loading(load):
    with pytest.raises(InvalidParameter, match="has no such file"):
        load("tokenize", {"max_length": "8", "tokenizer": "t" * 5000})


@pytest.mark.parametrize("name", ["/etc/passwd", "../tokenizer.json", "folder/tokenizer.json", "", ".."])
def test_a_file_is_looked_for_in_the_version_folder_alone(load, name):
    with pytest.raises(InvalidParameter, match="it must be the name of a file in "):
        load("tokenize", {"max_length": "8", "tokenizer": name})


@pytest.mark.parametrize("sizes", [[3], [600_000], [1, 600_000, 1], [200_000] * 7, [499_999, 1, 1]])
def test_what_would_take_long_is_tokenised_in_parts(sizes):
    texts = ["a" * size for size in sizes]
    parts = list(in_parts(texts))
    assert [text for part in parts for text in part] == texts
    assert all(len(part) == 1 or sum(map(len, part)) <= PART_CHARACTERS for part in parts)
