"""The five loads that engines are compared by, run in process and measured."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass, field

from torch import Tensor

from trireme_llm.engine import Engine
from trireme_llm.request import Output, Request, SamplingParams


@dataclass(frozen=True)
class Workload:
    """A closed loop of greedy requests that ignore the end of sequence; lengths in tokens."""

    name: str
    concurrency: int
    requests: int
    prompt: int
    output: int
    shared: int = 0  # of the prompt, the same in every request


WORKLOADS = (
    Workload("W1", 1, 3, 128, 128),
    Workload("W2", 1, 2, 2048, 32),
    Workload("W3", 8, 16, 256, 128),
    Workload("W4", 32, 32, 256, 128),
    Workload("W5", 8, 24, 1564, 32, shared=1500),
)


@dataclass(frozen=True)
class Measured:
    """What one run gave."""

    tokens_per_s: float
    first_token_s: float  # median
    next_token_s: float  # median

    def __str__(self) -> str:
        first, following = self.first_token_s * 1000, self.next_token_s * 1000
        return f"{self.tokens_per_s:8.1f} tokens/s   first {first:8.0f} ms   next {following:6.1f} ms"


@dataclass
class _Clock:
    """A sink that notes when tokens came."""

    cancelled: bool = False
    started_s: float = field(default_factory=time.perf_counter)
    times_s: list[float] = field(default_factory=list)
    error: Exception | None = None
    done: bool = False

    def emit(self, output: Output) -> None:
        self.times_s += [time.perf_counter()] * len(output.token_ids)
        self.done = output.finish_reason is not None
        self.error = output.error


def run_workload(engine: Engine[Tensor], load: Workload, seed: int = 0) -> Measured:
    """Token ids are random, so nothing is in the cache but what this run puts there."""
    prompts = _prompts(load, engine.vocabulary.size, seed)
    running: list[_Clock] = []
    finished: list[_Clock] = []
    started_s = time.perf_counter()
    while prompts or running:
        while prompts and len(running) < load.concurrency:
            running.append(_start(engine, prompts.pop(), load))
        engine.step()
        finished += [clock for clock in running if clock.done]
        running = [clock for clock in running if not clock.done]
    return _measured(finished, time.perf_counter() - started_s)


def _start(engine: Engine[Tensor], prompt: tuple[int, ...], load: Workload) -> _Clock:
    clock = _Clock()
    sampling = SamplingParams(max_tokens=load.output, temperature=0.0, ignore_eos=True)
    engine.add(Request(prompt=prompt, sink=clock, sampling=sampling))
    if clock.error is not None:
        raise clock.error
    return clock


def _prompts(load: Workload, vocabulary: int, seed: int) -> list[tuple[int, ...]]:
    source = random.Random(f"{load.name} {seed}")
    shared = tuple(source.randrange(vocabulary) for _ in range(load.shared))
    own = load.prompt - load.shared
    return [(*shared, *(source.randrange(vocabulary) for _ in range(own))) for _ in range(load.requests)]


def _measured(clocks: list[_Clock], took_s: float) -> Measured:
    firsts = [clock.times_s[0] - clock.started_s for clock in clocks]
    gaps = [later - earlier for c in clocks for earlier, later in zip(c.times_s, c.times_s[1:], strict=False)]
    num_tokens = sum(len(clock.times_s) for clock in clocks)
    return Measured(num_tokens / took_s, statistics.median(firsts), statistics.median(gaps))
