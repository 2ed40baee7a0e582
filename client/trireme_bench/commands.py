"""The subcommand `trireme bench`. What is heavy is imported when it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from trireme_client.endpoint import Protocol

    from trireme_bench.encode import Plan, Run, Scenario
    from trireme_bench.lanes import Server
    from trireme_bench.wire import Encoding


def _numbers(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    """Positive numbers with commas between them."""
    if value is None:
        return None
    try:
        numbers = tuple(float(part) for part in value.split(","))
    except ValueError:
        numbers = (0.0,)
    if min(numbers) <= 0:
        raise click.BadParameter(f"{value!r} is not a list of positive numbers such as 1,8,32")
    return numbers


@click.group()
def bench() -> None:
    """Measure a server: throughput, latency, CPU time and memory."""


@bench.command()
@click.option("--model", "models", multiple=True, default=("embed",), show_default=True, help="Can be given again.")
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    default=("16", "mix"),
    show_default=True,
    help="Tokens of each text, or `mix`: lognormal, median 30, mean 50, at most 512. For images WIDTHxHEIGHT.",
)
@click.option("--encoding", type=click.Choice(["json", "binary", "grpc"]), default="binary", show_default=True)
@click.option(
    "--concurrency",
    callback=_numbers,
    metavar="N,N,...",
    default="1,8,32,64",
    show_default=True,
    help="Callers, closed loop.",
)
@click.option(
    "--rate", callback=_numbers, metavar="N,N,...", help="Requests per second, open loop: in place of --concurrency."
)
@click.option("--repetitions", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--warm-up", type=click.FloatRange(0), default=2.0, show_default=True, help="Seconds before each measurement."
)
@click.option(
    "--duration",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds of each measurement.",
)
@click.option("--tokenizer", type=click.Path(exists=True, path_type=Path), help="Check token counts with this file.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write every figure to this file.")
@click.option("--plot", "plot_file", type=click.Path(path_type=Path), help="Write latency against throughput as PNG.")
@click.option("--url", help="HOST[:PORT]. Default: 127.0.0.1 with Triton's port for the encoding.")
@click.option("--server-pid", type=int, help="Process to watch. Default: the one that listens at the URL.")
def encode(models: tuple[str, ...], workloads: tuple[str, ...], **options: Any) -> None:
    """Load models that turn one text or image into one answer."""
    from trireme_bench.encode import carry_out, summaries
    from trireme_bench.plot import write_plot
    from trireme_bench.report import print_table, write_json

    settings = EncodeSettings(**options)
    server = _server(settings.url, settings.encoding, settings.server_pid)
    with _usage_errors():
        plan = settings.plan(_scenarios(server, models, workloads))
        runs = carry_out(plan, server, _report)
    rows = summaries(runs)
    print_table(rows)
    if settings.json_file:
        write_json(settings.json_file, runs, rows, settings.encoding)
    if settings.plot_file:
        write_plot(settings.plot_file, rows, settings.encoding)


@dataclass(frozen=True, kw_only=True)
class EncodeSettings:
    """The options of `encode` that are not about what is sent."""

    encoding: Encoding
    concurrency: tuple[float, ...]
    rate: tuple[float, ...] | None
    repetitions: int
    warm_up: float
    duration: float
    tokenizer: Path | None
    json_file: Path | None
    plot_file: Path | None
    url: str | None
    server_pid: int | None

    def plan(self, scenarios: Sequence[Scenario]) -> Plan:
        from trireme_bench.encode import DIFFERENT_TEXTS, Plan
        from trireme_bench.measure import Load
        from trireme_bench.texts import check_counts

        if self.tokenizer:
            for scenario in scenarios:
                check_counts(self.tokenizer, scenario.workload, DIFFERENT_TEXTS)
        open_loop = [Load(rate=rate) for rate in self.rate or ()]
        loads = open_loop or [Load(concurrency=int(callers)) for callers in self.concurrency]
        return Plan(tuple(scenarios), tuple(loads), self.repetitions, self.warm_up, self.duration)


@bench.command()
@click.option("--model", "models", multiple=True, default=("embed", "guard", "vision"), show_default=True)
@click.option("--workload", "workloads", multiple=True, default=("16", "mix", "500x375"), show_default=True)
@click.option("--requests", type=click.IntRange(1), default=20_000, show_default=True)
@click.option("--clients", type=click.IntRange(1), default=64, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write every figure to this file.")
@click.option("--url", help="HOST[:PORT] of the HTTP endpoint. Default: 127.0.0.1:8000.")
@click.option("--server-pid", type=int, help="Process to watch. Default: the one that listens at the URL.")
def soak(models: tuple[str, ...], workloads: tuple[str, ...], json_file: Path | None, **options: Any) -> None:
    """Send many mixed requests, JSON and binary, and watch the memory of every process of the server.

    Exit status 1 if any request failed. Memory is printed, not judged.
    """
    from trireme_bench.event_loop import run
    from trireme_bench.report import print_soak, write_soak
    from trireme_bench.soak import shuffled
    from trireme_bench.soak import soak as carry_out

    server = _server(options["url"], "binary", options["server_pid"])
    with _usage_errors():
        kinds = [
            scenario.requests(replace(server, encoding=encoding))
            for scenario in _scenarios(server, models, workloads)
            for encoding in scenario.encodings
        ]
        found = run(carry_out(server, shuffled(kinds), options["requests"], options["clients"]))
    print_soak(found)
    if json_file:
        write_soak(json_file, found)
    if found.failed:
        raise click.ClickException(f"{len(found.failed)} requests failed, the first with: {found.failed[0]}")


def _server(url: str | None, encoding: Encoding, pid: int | None) -> Server:
    from trireme_client.endpoint import Endpoint

    from trireme_bench.lanes import Server
    from trireme_bench.processes import serving_process

    with _usage_errors():
        endpoint = Endpoint.parse(url, "grpc" if encoding == "grpc" else "http")
    host, _, port = endpoint.address.rpartition(":")
    return Server(host.strip("[]"), int(port), encoding, pid or serving_process(int(port)))


def _scenarios(server: Server, models: Sequence[str], workloads: Sequence[str]) -> list[Scenario]:
    """Every model with every workload that suits it. Raises `ValueError` if there is none for a model."""
    from trireme_client import Client

    from trireme_bench.encode import Scenario
    from trireme_bench.wire import Target

    protocol: Protocol = "grpc" if server.encoding == "grpc" else "http"
    with Client(f"{protocol}://{server.host}:{server.port}") as client:
        targets = [Target.of(client.metadata(model)) for model in models]
    scenarios = [Scenario(target, workload) for target in targets for workload in workloads]
    suitable = [scenario for scenario in scenarios if scenario.suits]
    for target in targets:
        if target not in {scenario.target for scenario in suitable}:
            raise ValueError(f"none of the workloads {', '.join(workloads)} is for the model {target.model!r}")
    return suitable


def _report(run: Run) -> None:
    figures = run.figures
    text = f"{run.scenario.target.model} {run.scenario.workload} {run.load}: {figures.per_second:.1f}/s"
    failed = f", {figures.errors} failed: {figures.first_error}" if figures.errors else ""
    click.echo(f"{text}, p50 {figures.p50_s * 1000:.1f} ms{failed}", err=True)


@contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None
