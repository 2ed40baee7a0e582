"""Many mixed requests from many callers, and what the memory of every process does meanwhile."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from time import perf_counter

import numpy as np

from trireme_bench.lanes import Server, open_lanes
from trireme_bench.loops import ClosedLoop, carry_out
from trireme_bench.processes import Memory, memory
from trireme_bench.wire import text_of

SEED = 7
SAMPLE_S = 1.0
WARM_UP_SHARE = 0.3  # of the requests: caches, arenas and heaps fill up to then


@dataclass(frozen=True)
class Growth:
    """Of one process: bytes in RAM at the end of the warm-up and of the run, and the slope of the line between."""

    name: str
    start_bytes: int
    end_bytes: int
    bytes_per_1000: float  # requests; least squares over all samples after the warm-up


@dataclass(frozen=True)
class Soak:
    requests: int
    seconds: float
    failed: tuple[str, ...]  # what the failed requests were told
    growth: tuple[Growth, ...]  # empty if the server is not on this machine


def shuffled(requests: Sequence[Sequence[bytes]]) -> list[bytes]:
    """All kinds of requests in one order that is random but always the same, each kind equally often."""
    most = max(map(len, requests))
    mixed = [request for kind in requests for request in itertools.islice(itertools.cycle(kind), most)]
    random.Random(SEED).shuffle(mixed)
    return mixed


async def soak(server: Server, requests: Sequence[bytes], count: int, clients: int) -> Soak:
    loop = ClosedLoop(requests, until_s=inf, most=count)
    samples: list[tuple[int, list[Memory]]] = []
    start_s = perf_counter()
    async with open_lanes(server, clients, loop.replied) as lanes:
        watch = asyncio.ensure_future(_watch(loop, server.pid, samples))
        await carry_out(loop, lanes)
        watch.cancel()
    seconds = perf_counter() - start_s
    failed = tuple(text_of(reply) for _, reply in loop.record.failed)
    return Soak(len(loop.record.ended), seconds, failed, growth(samples, count * WARM_UP_SHARE))


async def _watch(loop: ClosedLoop, pid: int | None, samples: list[tuple[int, list[Memory]]]) -> None:
    while pid is not None:
        samples.append((loop.sent, memory(pid)))
        await asyncio.sleep(SAMPLE_S)


def growth(samples: Sequence[tuple[int, list[Memory]]], warm_up_requests: float) -> tuple[Growth, ...]:
    """Of every process that was there all the time after the warm-up; fewer than three samples tell nothing."""
    counted = [(sent, {one.name: one.bytes for one in found}) for sent, found in samples if sent >= warm_up_requests]
    if len(counted) < 3:
        return ()
    names = set.intersection(*(set(found) for _, found in counted))
    return tuple(_growth(name, [(sent, found[name]) for sent, found in counted]) for name in sorted(names))


def _growth(name: str, samples: Sequence[tuple[int, int]]) -> Growth:
    sent, size = np.array(samples, np.float64).T
    slope = np.polyfit(sent, size, 1)[0] if np.ptp(sent) else 0.0
    return Growth(name, int(size[0]), int(size[-1]), float(slope) * 1000)
