"""When requests are sent and what is counted, tried with lanes that answer as they are told."""

import asyncio
from collections.abc import Callable
from time import perf_counter

import numpy as np
import pytest
from trireme_bench.lanes import Lane
from trireme_bench.loops import SAMPLE_EVERY, ClosedLoop, OpenLoop, Record, carry_out
from trireme_bench.measure import figures
from trireme_client.errors import ServerError


class EchoLane:
    """Answers with the request after some time."""

    under_way = 0
    most_under_way = 0

    def __init__(self, replied: Callable[[Lane, bool, bytes], None], seconds: float) -> None:
        self.replied, self.seconds = replied, seconds

    def send(self, request: bytes) -> None:
        EchoLane.under_way += 1
        EchoLane.most_under_way = max(EchoLane.most_under_way, EchoLane.under_way)
        asyncio.get_running_loop().call_later(self.seconds, self.answer, request)

    def answer(self, request: bytes) -> None:
        EchoLane.under_way -= 1
        self.replied(self, request != b"bad", request)


@pytest.fixture(autouse=True)
def fresh_counts() -> None:
    EchoLane.under_way = EchoLane.most_under_way = 0


async def closed(requests: list[bytes], lanes: int, most: int) -> ClosedLoop:
    loop = ClosedLoop(requests, perf_counter() + 60, most)
    await asyncio.wait_for(loop.run([EchoLane(loop.replied, 0.0001) for _ in range(lanes)]), 30)
    return loop


def test_a_closed_loop_sends_exactly_as_many_as_asked_for() -> None:
    loop = asyncio.run(closed([b"a", b"b", b"c"], lanes=4, most=103))
    assert loop.sent == len(loop.record.ended) == len(loop.record.latency) == 103
    assert EchoLane.most_under_way == 4


def test_a_closed_loop_of_fewer_requests_than_lanes_ends() -> None:
    assert asyncio.run(closed([b"a"], lanes=8, most=3)).sent == 3


def test_failures_are_counted_apart_and_keep_their_reason() -> None:
    loop = asyncio.run(closed([b"good", b"bad"], lanes=2, most=10))
    assert len(loop.record.ended) == 5
    assert [reply for _, reply in loop.record.failed] == [b"bad"] * 5


def test_samples_are_kept_with_the_number_of_their_request() -> None:
    requests = [str(number).encode() for number in range(300)]
    loop = asyncio.run(closed(requests, lanes=3, most=300))
    assert sorted(loop.record.samples) == [(number, requests[number]) for number in range(0, 300, SAMPLE_EVERY)]


def test_a_closed_loop_ends_when_its_time_is_over() -> None:
    async def run() -> ClosedLoop:
        loop = ClosedLoop([b"a"], perf_counter() + 0.05)
        await asyncio.wait_for(loop.run([EchoLane(loop.replied, 0.001)]), 30)
        return loop

    loop = asyncio.run(run())
    assert loop.sent == len(loop.record.ended) > 0


def test_a_server_that_answers_no_more_is_an_error_and_not_a_hang() -> None:
    async def run() -> None:
        loop = ClosedLoop([b"a"], perf_counter() + 0.01)
        await carry_out(loop, [EchoLane(loop.replied, 3600)], patience_s=0.1)

    with pytest.raises(ServerError, match="1 requests under way"):
        asyncio.run(run())


async def open_loop(rate: float, seconds: float, lanes: int, answer_s: float) -> OpenLoop:
    loop = OpenLoop([b"a"], perf_counter() + seconds, rate)
    await asyncio.wait_for(loop.run([EchoLane(loop.replied, answer_s) for _ in range(lanes)]), 30)
    return loop


def test_an_open_loop_answers_every_request_that_was_due() -> None:
    loop = asyncio.run(open_loop(rate=500, seconds=0.4, lanes=64, answer_s=0.001))
    assert loop.sent == len(loop.record.ended)
    assert 100 <= loop.sent <= 320  # 200 expected, standard deviation 14


def test_a_request_that_waits_for_a_free_lane_counts_from_when_it_was_due() -> None:
    loop = asyncio.run(open_loop(rate=1000, seconds=0.2, lanes=1, answer_s=0.01))
    assert np.median(loop.record.latency) > 0.1  # one lane gives 100/s: the queue grows to nearly two seconds


def record(ended: list[float], latency: list[float]) -> Record:
    found = Record()
    found.ended.extend(ended)
    found.latency.extend(latency)
    return found


def test_only_what_ends_within_the_time_is_counted() -> None:
    found = record(ended=[0.5, 1.0, 1.5, 2.0], latency=[9, 0.1, 0.3, 9])
    found.failed += [(0.9, b"early"), (1.2, b"HTTP/1.1 400 Bad Request\r\n\r\nreason")]
    counted = figures(found, 1.0, 2.0, cpu=None)
    assert (counted.requests, counted.errors, counted.first_error, counted.per_second) == (2, 1, "reason", 2.0)
    assert counted.p50_s == pytest.approx(0.2)


def test_percentiles_are_those_of_numpy() -> None:
    latency = np.random.default_rng(7).lognormal(size=1000)
    counted = figures(record([1.5] * 1000, latency.tolist()), 1, 2, cpu=None)
    assert [counted.p50_s, counted.p90_s, counted.p99_s] == pytest.approx(np.percentile(latency, [50, 90, 99]).tolist())


def test_a_time_without_an_answer_is_an_error_with_the_reason() -> None:
    found = Record()
    found.failed.append((1.5, b"connection lost"))
    with pytest.raises(ServerError, match="connection lost"):
        figures(found, 1, 2, cpu=None)
