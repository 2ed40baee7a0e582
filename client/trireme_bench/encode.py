"""A series of measurements: models, workloads and loads, several times each, and their medians."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trireme_bench.answers import Agreement, agreement
from trireme_bench.event_loop import run as run_in_loop
from trireme_bench.images import images
from trireme_bench.lanes import Server
from trireme_bench.measure import Figures, Load, measure
from trireme_bench.texts import texts
from trireme_bench.wire import Encoding, Target, request

DIFFERENT_TEXTS, DIFFERENT_IMAGES = 512, 16


@dataclass(frozen=True)
class Scenario:
    """What is sent to which model. The workload is a number of tokens, `mix`, or the size of the images."""

    target: Target
    workload: str

    @property
    def suits(self) -> bool:
        """Images go to models of images and texts to all others."""
        return ("x" in self.workload[1:-1]) == self._takes_images

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """What it can be sent in over HTTP: an image is not UTF-8, which JSON needs."""
        return ("binary",) if self._takes_images else ("json", "binary")

    @property
    def _takes_images(self) -> bool:
        return self.target.input_name == "image"

    def requests(self, server: Server) -> list[bytes]:
        """Raises `ValueError` if the workload is none for this model."""
        host = f"{server.host}:{server.port}"
        return [request(self.target, item, server.encoding, host) for item in self._items()]

    def _items(self) -> list[bytes]:
        if self._takes_images:
            return images(self.workload, DIFFERENT_IMAGES)
        return [text.encode() for text in texts(self.workload, DIFFERENT_TEXTS)]


@dataclass(frozen=True)
class Plan:
    scenarios: tuple[Scenario, ...]
    loads: tuple[Load, ...]
    repetitions: int
    warm_up_s: float
    duration_s: float

    def __iter__(self) -> Iterator[tuple[Scenario, Load]]:
        """Every pair, again and again: what changes on the machine meanwhile then touches all pairs alike."""
        for _ in range(self.repetitions):
            for scenario in self.scenarios:
                for load in self.loads:
                    yield scenario, load

    def __len__(self) -> int:
        return self.repetitions * len(self.scenarios) * len(self.loads)


@dataclass(frozen=True)
class Run:
    scenario: Scenario
    load: Load
    figures: Figures
    agreement: Agreement


@dataclass(frozen=True)
class Summary:
    """The repetitions of one scenario under one load: medians, and the lowest and highest throughput."""

    scenario: Scenario
    load: Load
    per_second: float
    lowest: float
    highest: float
    p50_s: float
    p90_s: float
    p99_s: float
    errors: int  # in all repetitions
    server_cpu: float | None  # shares of all cores
    generator_cpu: float | None
    foreign_cpu: float | None  # the most of all repetitions
    least_cosine: float
    labels_differ: int


def carry_out(plan: Plan, server: Server, report: Callable[[Run], None]) -> list[Run]:
    """All measurements of the plan; `report` sees each as it is done."""
    requests = {scenario: scenario.requests(server) for scenario in plan.scenarios}
    runs = []
    for scenario, load in plan:
        runs.append(run_in_loop(_run(plan, server, scenario, load, requests[scenario])))
        report(runs[-1])
    return runs


async def _run(plan: Plan, server: Server, scenario: Scenario, load: Load, requests: Sequence[bytes]) -> Run:
    found, samples = await measure(server, requests, load, plan.warm_up_s, plan.duration_s)
    return Run(scenario, load, found, await agreement(server, scenario.target, requests, samples))


def summaries(runs: Sequence[Run]) -> list[Summary]:
    groups: dict[tuple[Scenario, Load], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.scenario, run.load), []).append(run)
    return [_summary(*key, group) for key, group in groups.items()]


def _summary(scenario: Scenario, load: Load, runs: Sequence[Run]) -> Summary:
    found = [run.figures for run in runs]
    shares = [figures.cpu for figures in found if figures.cpu]
    rates = [figures.per_second for figures in found]
    return Summary(
        scenario,
        load,
        per_second=statistics.median(rates),
        lowest=min(rates),
        highest=max(rates),
        p50_s=statistics.median(figures.p50_s for figures in found),
        p90_s=statistics.median(figures.p90_s for figures in found),
        p99_s=statistics.median(figures.p99_s for figures in found),
        errors=sum(figures.errors for figures in found),
        server_cpu=statistics.median(share.server for share in shares) if shares else None,
        generator_cpu=statistics.median(share.generator for share in shares) if shares else None,
        foreign_cpu=max(share.foreign for share in shares) if shares else None,
        least_cosine=min(run.agreement.least_cosine for run in runs),
        labels_differ=sum(run.agreement.labels_differ for run in runs),
    )
