"""Long texts are split as the `tokenizers` library itself splits what overflows a truncation with a stride."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from trireme_stages.windows import WindowPlan

FRAMES = {"bert": ((2,), (3,)), "gpt2": ((), ()), "llama": ((0,), ()), "t5": ((), (0,)), "twice": ((0, 1), (1,))}


@settings(deadline=None)
@given(length=st.integers(0, 300), family=st.sampled_from(sorted(FRAMES)), content=st.integers(1, 40), data=st.data())
def test_windows_equal_the_overflowing_parts_of_the_tokenizers_library(tokenizer_files, length, family, content, data):
    prefix, suffix = FRAMES[family]
    plan = WindowPlan(
        max_length=content + len(prefix) + len(suffix),
        overlap=data.draw(st.integers(0, content - 1)),
        prefix=prefix,
        suffix=suffix,
    )
    tokenizer = Tokenizer.from_str(tokenizer_files[family].decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(plan.max_length, stride=plan.overlap)
    encoding = tokenizer.encode(".," * (length // 2))
    expected = [part.ids for part in (encoding, *encoding.overflowing)]

    tokenizer.no_truncation()
    ids = tokenizer.encode(".," * (length // 2)).ids
    assert plan.split(ids) == expected
    assert plan.count(len(ids)) == len(expected)


@settings(deadline=None)
@given(length=st.integers(0, 300), content=st.integers(1, 40), data=st.data())
def test_windows_cover_every_token_and_overlap_exactly(length, content, data):
    overlap = data.draw(st.integers(0, content - 1))
    plan = WindowPlan(max_length=content + 2, overlap=overlap, prefix=(-1,), suffix=(-2,))
    windows = plan.split([-1, *range(length), -2])
    assert all(window[0] == -1 and window[-1] == -2 and len(window) <= plan.max_length for window in windows)
    contents = [window[1:-1] for window in windows]
    for before, after in pairwise(contents):
        assert before[len(before) - overlap :] == after[:overlap]
    assert contents[0] + [token for window in contents[1:] for token in window[overlap:]] == list(range(length))


@pytest.mark.parametrize(("length", "windows"), [(2, 1), (10, 1), (11, 2), (16, 2), (17, 3)])
def test_a_text_takes_another_window_for_every_step_beyond_the_first(length, windows):
    plan = WindowPlan(max_length=10, overlap=2, prefix=(-1,), suffix=(-2,))
    assert plan.count(length) == windows
