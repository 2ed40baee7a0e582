"""What a soak makes of the memory it watched."""

import pytest
from trireme_bench.processes import Memory
from trireme_bench.soak import growth, shuffled

MIB = 1 << 20


def watched(*sizes: int, step: int = 1000) -> list[tuple[int, list[Memory]]]:
    return [(number * step, [Memory("stub", size)]) for number, size in enumerate(sizes)]


def test_the_slope_is_that_of_the_line_after_the_warm_up() -> None:
    (stub,) = growth(watched(10 * MIB, 90 * MIB, 100 * MIB, 101 * MIB, 102 * MIB), warm_up_requests=2000)
    assert (stub.start_bytes, stub.end_bytes) == (100 * MIB, 102 * MIB)
    assert stub.bytes_per_1000 == pytest.approx(MIB)


def test_flat_memory_has_no_slope() -> None:
    (stub,) = growth(watched(*[7 * MIB] * 9), warm_up_requests=0)
    assert stub.bytes_per_1000 == pytest.approx(0, abs=1e-3)


def test_a_process_that_was_not_there_all_the_time_is_left_out() -> None:
    samples = watched(1, 2, 3)
    samples[1][1].append(Memory("short-lived", 5))
    assert [row.name for row in growth(samples, warm_up_requests=0)] == ["stub"]


def test_too_few_samples_tell_nothing() -> None:
    assert growth(watched(1, 2), warm_up_requests=0) == ()


def test_every_kind_of_request_is_as_frequent_and_the_order_always_the_same() -> None:
    kinds = [[b"a", b"b"], [b"long"], [b"c", b"d"]]
    mixed = shuffled(kinds)
    assert sorted(mixed) == [b"a", b"b", b"c", b"d", b"long", b"long"]
    assert mixed == shuffled(kinds)
