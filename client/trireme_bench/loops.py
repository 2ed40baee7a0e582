"""When requests are sent: again as soon as the last one is answered (closed), or at given times (open).

A closed loop finds out what a server can do; an open loop, how long callers wait who do not wait for each other.
"""

import asyncio
import random
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from trireme_client.errors import ServerError

from trireme_bench.lanes import Lane

SEED = 7
SAMPLE_EVERY, MOST_SAMPLES = 50, 64  # replies kept, to be checked when the load is over


@dataclass
class Record:
    """What happened to every request, in the order in which they ended."""

    ended: "array[float]" = field(default_factory=lambda: array("d"))  # seconds, on the clock of perf_counter
    latency: "array[float]" = field(default_factory=lambda: array("d"))  # seconds
    failed: list[tuple[float, bytes]] = field(default_factory=list)  # when, and the reply
    samples: list[tuple[int, bytes]] = field(default_factory=list)  # number of the request, and the reply


def note(record: Record, number: int, sent_s: float, answered: bool, reply: bytes) -> None:
    """Called for every reply, so it does little."""
    now = perf_counter()
    if not answered:
        record.failed.append((now, reply))
        return
    record.ended.append(now)
    record.latency.append(now - sent_s)
    if number % SAMPLE_EVERY == 0 and len(record.samples) < MOST_SAMPLES:
        record.samples.append((number, reply))


async def carry_out(loop: "ClosedLoop | OpenLoop", lanes: Sequence[Lane], patience_s: float = 60) -> None:
    """Run the loop to its end. Raises `ServerError` if requests are under way and none is answered for that long."""
    run = asyncio.ensure_future(loop.run(lanes))
    replies = -1
    while not (await asyncio.wait({run}, timeout=patience_s))[0]:
        found = len(loop.record.ended) + len(loop.record.failed)
        if found == replies and loop.under_way:
            run.cancel()
            raise ServerError(f"no reply in {patience_s:g} s, with {len(loop.under_way)} requests under way")
        replies = found
    await run


class ClosedLoop:
    """One request under way per lane. Ends when the time is over or enough were sent, and all have been answered."""

    def __init__(self, requests: Sequence[bytes], until_s: float, most: int | None = None) -> None:
        self.record = Record()
        self.sent = 0
        self._requests = requests
        self._until_s = until_s
        self._most = most
        self.under_way: dict[Lane, tuple[int, float]] = {}  # number of the request, when it was sent
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            self._send(lane)
        if self.under_way:
            await self._done

    def _send(self, lane: Lane) -> None:
        number = self.sent
        now = perf_counter()
        if now < self._until_s and (self._most is None or number < self._most):
            self.sent = number + 1
            self.under_way[lane] = number, now
            lane.send(self._requests[number % len(self._requests)])
        elif not self.under_way and not self._done.done():
            self._done.set_result(None)

    def replied(self, lane: Lane, answered: bool, reply: bytes) -> None:
        number, sent_s = self.under_way.pop(lane)
        note(self.record, number, sent_s, answered, reply)
        self._send(lane)


class OpenLoop:
    """Requests at the times of a Poisson process, on whatever lane is free.

    A request that finds no lane free waits, and its latency counts from when it was due: otherwise a slow server
    would be asked less and look faster ("coordinated omission", G. Tene).
    """

    def __init__(self, requests: Sequence[bytes], until_s: float, rate: float) -> None:
        self.record = Record()
        self.sent = 0
        self._requests = requests
        self._until_s = until_s
        self._rate = rate
        self._rng = random.Random(SEED)
        self._free: list[Lane] = []
        self._late: deque[tuple[int, float]] = deque()  # number of the request, when it was due
        self.under_way: dict[Lane, tuple[int, float]] = {}

    async def run(self, lanes: Sequence[Lane]) -> None:
        self._free = list(lanes)
        due_s = perf_counter()
        while (due_s := due_s + self._rng.expovariate(self._rate)) < self._until_s:
            if (ahead := due_s - perf_counter()) > 0:
                await asyncio.sleep(ahead)
            self._late.append((self.sent, due_s))
            self.sent += 1
            self._start()
        while self._late or self.under_way:
            await asyncio.sleep(0.01)

    def _start(self) -> None:
        while self._late and self._free:
            lane = self._free.pop()
            number, _ = self.under_way[lane] = self._late.popleft()
            lane.send(self._requests[number % len(self._requests)])

    def replied(self, lane: Lane, answered: bool, reply: bytes) -> None:
        note(self.record, *self.under_way.pop(lane), answered, reply)
        self._free.append(lane)
        self._start()
