"""How items are cut into requests."""

from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st
from trireme_client.batches import Batch, cut
from trireme_client.errors import InvalidInput
from trireme_client.tasks import EMBED, RERANK

TEXTS = st.lists(st.text(max_size=8) | st.just("\ud800"), max_size=40)


@given(TEXTS, st.integers(1, 5), st.integers(1, 30))
def test_every_item_is_in_one_batch_in_its_place(texts: list[str], max_items: int, max_bytes: int) -> None:
    batches = list(cut(EMBED, texts, max_items, max_bytes))
    found: list[bytes | None] = []
    for batch in batches:
        if isinstance(batch, InvalidInput):
            assert batch.index == len(found)
            found.append(None)
        else:
            assert batch.start == len(found)
            found += [text for (text,) in batch.payloads]
    assert found == [None if text == "\ud800" else text.encode() for text in texts]


@given(TEXTS, st.integers(1, 5), st.integers(1, 30))
def test_a_batch_of_several_items_keeps_both_limits(texts: list[str], max_items: int, max_bytes: int) -> None:
    for batch in cut(EMBED, texts, max_items, max_bytes):
        if isinstance(batch, Batch) and len(batch.payloads) > 1:
            assert len(batch.payloads) <= max_items
            assert sum(len(text) for (text,) in batch.payloads) <= max_bytes


def test_an_item_larger_than_the_limit_travels_alone() -> None:
    batches = list(cut(EMBED, ["a", "b" * 100, "c"], max_items=9, max_bytes=10))
    assert batches == [Batch(0, ((b"a",),)), Batch(1, ((b"b" * 100,),)), Batch(2, ((b"c",),))]


def test_every_part_of_an_item_counts() -> None:
    batches = list(cut(RERANK, [("q" * 4, "a" * 4), ("q", "b"), ("q", "c")], max_items=9, max_bytes=10))
    assert [len(batch.payloads) for batch in batches if isinstance(batch, Batch)] == [2, 1]


def test_items_are_read_no_further_than_the_next_batch_needs() -> None:
    numbers = count()
    assert len(list(islice(cut(EMBED, map(str, numbers), max_items=3), 2))) == 2
    assert next(numbers) == 7
