#!/usr/bin/env python3
"""What a running server reaches of the limit of its network on this machine, both measured in turns in one run.

A machine's speed changes from minute to minute, so a figure from one run says little beside a figure from another.
Here every round loads the server with each number of callers and then runs the bare network in every arrangement of
`encode_limit.py` with a stream per core; the arrangement with the best median is the limit. Shares are taken within a
round, and the median and the spread of the rounds are given.

    python tests/bench/encode_against_limit.py model_repository/embed_network/1/model.onnx --precision bf16
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from encode_limit import ROWS, Batch, Infer, arrangements, openvino_streams, run, warm_up
from trireme_bench.encode import Scenario
from trireme_bench.event_loop import run as run_in_loop
from trireme_bench.lanes import Server
from trireme_bench.measure import Load, measure
from trireme_bench.processes import serving_process
from trireme_bench.wire import Target
from trireme_client import Client

WARM_UP_S = 1.0
Rates = dict[str, list[float]]  # per second, by what was measured, one for each round


@dataclass(frozen=True)
class Bare:
    """The network without a server: streams of one thread, and the calls of each arrangement."""

    streams: list[Infer]
    calls: dict[str, list[Batch]]

    def rates(self, seconds: float) -> Iterator[tuple[str, float]]:
        for name, batches in self.calls.items():
            yield name, run(self.streams, batches, seconds)


def bare_network(arguments: argparse.Namespace) -> Bare:
    streams = openvino_streams(arguments.network, len(os.sched_getaffinity(0)), 1, arguments.precision)
    found = arrangements(arguments.network, arguments)
    calls = {f"{rows} {batch}": batches for rows, batch, batches in found}
    for batches in calls.values():
        warm_up(streams, batches)
    return Bare(streams, calls)


def served(arguments: argparse.Namespace) -> tuple[Server, list[bytes]]:
    """The server, and the requests of the workload."""
    server = Server("127.0.0.1", arguments.port, arguments.encoding, serving_process(arguments.port))
    with Client(f"http://127.0.0.1:{arguments.port}") as client:
        target = Target.of(client.metadata(arguments.model))
    return server, Scenario(target, arguments.workload).requests(server)


def carry_out(arguments: argparse.Namespace) -> tuple[Rates, Rates]:
    """The rates of the server by callers, and those of the bare network by arrangement."""
    bare, (server, requests) = bare_network(arguments), served(arguments)
    through: Rates = {str(callers): [] for callers in arguments.concurrency}
    limits: Rates = {name: [] for name in bare.calls}
    for _ in range(arguments.rounds):
        for callers in arguments.concurrency:
            load = Load(concurrency=callers)
            figures, _ = run_in_loop(measure(server, requests, load, WARM_UP_S, arguments.seconds))
            if figures.errors:
                sys.exit(f"{figures.errors} requests failed, the first with: {figures.first_error}")
            through[str(callers)].append(figures.per_second)
        for name, rate in bare.rates(arguments.seconds / len(bare.calls)):
            limits[name].append(rate)
    return through, limits


def shares(through: Rates, limits: Rates) -> Iterator[dict[str, object]]:
    """A line for every number of callers."""
    best = max(limits, key=lambda name: statistics.median(limits[name]))
    for callers, rates in through.items():
        share = [rate / limit for rate, limit in zip(rates, limits[best], strict=True)]
        yield {
            "callers": int(callers),
            "per_second": round(statistics.median(rates), 1),
            "share_of_limit": round(statistics.median(share), 3),
            "lowest": round(min(share), 3),
            "highest": round(max(share), 3),
            "limit_per_second": round(statistics.median(limits[best]), 1),
            "limit": best,
        }


def parse(command_line: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a running server reaches of its network's limit.")
    parser.add_argument("network", type=Path, help="ONNX file")
    parser.add_argument("--model", default="embed", help="the entry that serves it")
    parser.add_argument("--workload", default="16", help="tokens of each text, mix, or WIDTHxHEIGHT of images")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--encoding", choices=["json", "binary"], default="binary")
    parser.add_argument("--port", type=int, default=8000, help="of HTTP")
    parser.add_argument("--precision", choices=["f32", "bf16"], required=True, help="that the server computes in")
    parser.add_argument("--batch", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--rows", choices=ROWS, nargs="+", default=ROWS, help="texts sorted by length, or in any order")
    parser.add_argument("--row-tokens", type=int, default=128, help="width of packed rows")
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args(command_line)


def main(command_line: list[str] | None = None) -> None:
    for line in shares(*carry_out(parse(command_line))):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
