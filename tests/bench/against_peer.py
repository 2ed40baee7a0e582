#!/usr/bin/env python3
"""Two servers on this machine under the same load in turns: what one does as a share of what the other does.

A machine's speed changes from minute to minute, so only figures taken in turns can be compared. Every round loads the
one and then the other, the next round in the opposite order. Both are asked for the outputs that both have.

    python tests/bench/against_peer.py --model embed --peer plain --peer-port 9000
"""

import argparse
import json
import statistics
import sys
from dataclasses import replace

from trireme_bench.encode import Scenario
from trireme_bench.event_loop import run as run_in_loop
from trireme_bench.lanes import Server
from trireme_bench.measure import Load, measure
from trireme_bench.processes import serving_process
from trireme_bench.wire import Target
from trireme_client import Client

WARM_UP_S = 0.5
Rates = dict[str, list[float]]  # per second, by side


def target(model: str, port: int) -> Target:
    with Client(f"http://127.0.0.1:{port}") as client:
        return Target.of(client.metadata(model))


def rounds(arguments: argparse.Namespace, workload: str, load: Load) -> Rates:
    """The rates of both servers, a figure for every round."""
    targets = {"ours": target(arguments.model, arguments.port), "peer": target(arguments.peer, arguments.peer_port)}
    ports = {"ours": arguments.port, "peer": arguments.peer_port}
    common = tuple(name for name in targets["peer"].outputs if name in targets["ours"].outputs)
    rates: Rates = {side: [] for side in ports}
    order = list(ports)
    for _ in range(arguments.rounds):
        order.reverse()
        for side in order:
            server = Server("127.0.0.1", ports[side], arguments.encoding, serving_process(ports[side]))
            requests = Scenario(replace(targets[side], outputs=common), workload).requests(server)
            figures, _ = run_in_loop(measure(server, requests, load, WARM_UP_S, arguments.seconds))
            if figures.errors:
                sys.exit(f"{side}: {figures.errors} requests failed, the first with: {figures.first_error}")
            rates[side].append(figures.per_second)
    return rates


def ratio(rates: Rates) -> dict[str, float]:
    """Medians, and the spread of the rounds' ratios."""
    ratios = [ours / theirs for ours, theirs in zip(rates["ours"], rates["peer"], strict=True)]
    return {
        "ours": round(statistics.median(rates["ours"]), 1),
        "peer": round(statistics.median(rates["peer"]), 1),
        "ratio": round(statistics.median(ratios), 3),
        "lowest": round(min(ratios), 3),
        "highest": round(max(ratios), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Two servers under the same load, in turns.")
    parser.add_argument("--model", default="embed")
    parser.add_argument("--port", type=int, default=8000, help="of HTTP")
    parser.add_argument("--peer", required=True, help="the model of the other server")
    parser.add_argument("--peer-port", type=int, required=True)
    parser.add_argument("--workload", nargs="+", default=["16", "mix"])
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--encoding", choices=["json", "binary"], default="binary")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    for workload in arguments.workload:
        for callers in arguments.concurrency:
            found = rounds(arguments, workload, Load(concurrency=callers))
            line = {"workload": workload, "callers": callers, **ratio(found)}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
