"""One measurement: a model, a load, a stretch of time. Gives figures; compares and prints nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from trireme_client.errors import ServerError

from trireme_bench.lanes import Server, open_lanes
from trireme_bench.loops import ClosedLoop, OpenLoop, Record, carry_out
from trireme_bench.processes import CpuShares, CpuTimes, cpu_times
from trireme_bench.wire import text_of

OPEN_LOOP_LANES = 256  # more requests than that under way at once: the server does not keep up


@dataclass(frozen=True)
class Load:
    """A closed loop of so many callers, or an open loop of so many requests per second."""

    concurrency: int | None = None
    rate: float | None = None

    def __str__(self) -> str:
        return str(self.concurrency) if self.concurrency else f"{self.rate:g}/s"


@dataclass(frozen=True)
class Figures:
    """What a load came to. Latencies are in seconds; `cpu` is None for a server elsewhere."""

    requests: int
    errors: int
    seconds: float
    p50_s: float
    p90_s: float
    p99_s: float
    cpu: CpuShares | None
    first_error: str | None

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


async def measure(
    server: Server, requests: Sequence[bytes], load: Load, warm_up_s: float, duration_s: float
) -> tuple[Figures, list[tuple[int, bytes]]]:
    """Load the server, and count what ends after the warm-up. Also gives some numbered replies, to be checked."""
    start_s = perf_counter() + warm_up_s
    end_s = start_s + duration_s
    loop = _loop(requests, load, end_s)
    async with open_lanes(server, load.concurrency or OPEN_LOOP_LANES, loop.replied) as lanes:
        watch = asyncio.gather(_cpu_at(start_s, server.pid), _cpu_at(end_s, server.pid))
        await carry_out(loop, lanes)
        before, after = await watch
    shares = after.since(before) if server.pid is not None else None
    return figures(loop.record, start_s, end_s, shares), loop.record.samples


def _loop(requests: Sequence[bytes], load: Load, end_s: float) -> ClosedLoop | OpenLoop:
    if load.rate is not None:
        return OpenLoop(requests, end_s, load.rate)
    return ClosedLoop(requests, end_s)


async def _cpu_at(moment_s: float, pid: int | None) -> CpuTimes:
    await asyncio.sleep(moment_s - perf_counter())
    return cpu_times(pid)


def figures(record: Record, start_s: float, end_s: float, cpu: CpuShares | None) -> Figures:
    ended, latency = np.array(record.ended), np.array(record.latency)
    counted = latency[(ended >= start_s) & (ended < end_s)]
    failed = [reply for moment_s, reply in record.failed if start_s <= moment_s < end_s]
    first_error = text_of(failed[0]) if failed else None
    if not counted.size:
        raise ServerError(f"no request was answered in {end_s - start_s:g} s; {first_error or 'none failed either'}")
    p50, p90, p99 = np.percentile(counted, [50, 90, 99])
    return Figures(len(counted), len(failed), end_s - start_s, float(p50), float(p90), float(p99), cpu, first_error)
