"""Rows hold every text once, cost little more than their texts, and come in few lengths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trireme_network.pieces import busy_share, split_evenly
from trireme_network.row_packing import BATCH_TOKENS, ROW_TOKENS, pack, rounded

LENGTHS = st.lists(st.integers(1, 512), min_size=1, max_size=64)


@given(LENGTHS, st.integers(1, 8))
def test_every_text_is_in_one_row_and_fits(lengths, streams):
    batches = pack(lengths, streams)
    assert sorted(text for batch in batches for row in batch.rows for text in row) == list(range(len(lengths)))
    assert all(sum(lengths[text] for text in row) <= batch.length for batch in batches for row in batch.rows)


@given(LENGTHS)
def test_no_more_is_paid_than_for_texts_alone(lengths):
    assert sum(batch.tokens for batch in pack(lengths, 1)) <= sum(map(rounded, lengths)) * 8 / 7


@given(LENGTHS, st.integers(1, 8))
def test_batches_are_bounded_and_the_largest_comes_first(lengths, streams):
    batches = pack(lengths, streams)
    assert all(batch.tokens <= BATCH_TOKENS or len(batch.rows) == 1 for batch in batches)
    assert [batch.tokens for batch in batches] == sorted((batch.tokens for batch in batches), reverse=True)


@given(st.integers(1, 512), st.integers(1, 64))
def test_texts_of_equal_length_are_an_ordinary_batch(length, count):
    texts_in_a_row = {len(row) for batch in pack([length] * count, 1) for row in batch.rows}
    assert length <= ROW_TOKENS // 2 or texts_in_a_row == {1}


def test_short_texts_share_rows_with_a_long_one():
    (batch,) = pack([100, 20, 8], 1)
    assert batch.rows == ((0, 1, 2),)
    assert batch.length == 128


@pytest.mark.parametrize(("length", "row"), [(1, 8), (8, 8), (9, 16), (65, 72), (128, 128), (129, 144), (500, 512)])
def test_a_row_is_at_most_an_eighth_longer_than_its_text(length, row):
    assert rounded(length) == row


def test_rows_come_in_few_lengths():
    assert len({rounded(length) for length in range(1, 513)}) == 32


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.integers(1, 8))
def test_the_busy_share_is_a_share(costs, streams):
    share = busy_share(costs, streams)
    assert 1 / streams - 1e-9 <= share <= 1 + 1e-9


def test_a_lone_piece_keeps_one_of_two_streams_busy():
    assert busy_share([7], 2) == 0.5
    assert busy_share([7, 7], 2) == 1


@given(st.lists(st.integers(), min_size=1, max_size=50), st.integers(1, 10))
def test_even_parts_are_few_and_differ_by_at_most_one(items, limit):
    parts = split_evenly(items, limit)
    assert [item for part in parts for item in part] == items
    assert len(parts) == -(-len(items) // limit)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
