"""Measurements as a table for people and as JSON for programs."""

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from trireme_bench.encode import Run, Summary
from trireme_bench.soak import Soak
from trireme_bench.wire import Encoding

COLUMNS = (
    *("model", "workload", "load"),
    *("requests/s", "spread", "p50 ms", "p90 ms", "p99 ms"),
    *("errors", "server", "bench", "foreign", "cosine"),
)
MOST_COLUMNS = 160
MOST_FOREIGN_CPU = 0.06  # above that, the figures say more about the other programs on the machine


def print_table(summaries: Sequence[Summary]) -> None:
    table = Table(caption=_caption(summaries))
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in COLUMNS[:3] else "right")
    for row in summaries:
        table.add_row(
            row.scenario.target.model,
            row.scenario.workload,
            str(row.load),
            f"{row.per_second:.1f}",
            f"{row.lowest:.1f}-{row.highest:.1f}",
            *(f"{seconds * 1000:.1f}" for seconds in (row.p50_s, row.p90_s, row.p99_s)),
            str(row.errors),
            *(_percent(share) for share in (row.server_cpu, row.generator_cpu, row.foreign_cpu)),
            f"{row.least_cosine:.5f}" + (f", {row.labels_differ} labels" if row.labels_differ else ""),
        )
    _print(table)


def _print(table: Table) -> None:
    """On a terminal as wide as that is; in a file or a pipe as wide as the table needs."""
    Console(width=None if sys.stdout.isatty() else MOST_COLUMNS).print(table)


def _caption(summaries: Sequence[Summary]) -> str:
    text = "Medians. load: callers at a time, or requests/s. server, bench, foreign: shares of all cores."
    text += " cosine: of answers under load to the same ones alone, the least."
    if any((row.foreign_cpu or 0) > MOST_FOREIGN_CPU for row in summaries):
        text += f" Rows with more than {MOST_FOREIGN_CPU:.0%} foreign CPU do not count."
    return text


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def write_json(file: Path, runs: Sequence[Run], summaries: Sequence[Summary], encoding: Encoding) -> None:
    rows = {"summaries": [_flat(asdict(row)) for row in summaries], "runs": [_flat(asdict(run)) for run in runs]}
    _write(file, {"encoding": encoding, **rows})


def print_soak(soak: Soak) -> None:
    """Requests and failures, and a row for every process whose memory was watched."""
    Console().print(f"{soak.requests} answered in {soak.seconds:.0f} s, {len(soak.failed)} failed")
    table = Table(caption="Bytes in RAM, from the end of the warm-up to the end; slope: least squares in between.")
    table.add_column("process")
    for name in ("start MiB", "end MiB", "slope KiB per 1000 requests"):
        table.add_column(name, justify="right")
    for row in soak.growth:
        sizes = (f"{size / (1 << 20):.1f}" for size in (row.start_bytes, row.end_bytes))
        table.add_row(row.name, *sizes, f"{row.bytes_per_1000 / 1024:.1f}")
    _print(table)


def write_soak(file: Path, soak: Soak) -> None:
    _write(file, asdict(soak))


def _write(file: Path, content: dict[str, Any]) -> None:
    """The content, and what it needs to be understood later: the command, the time and the machine."""
    context = {
        "schema": 1,
        "command": ["trireme", *sys.argv[1:]],
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()},
    }
    file.write_text(json.dumps(context | content, indent=1) + "\n")


def cpu_model() -> str:
    """As the kernel names it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """The model and the workload in place of the whole scenario; the load by its one number."""
    scenario, load = row.pop("scenario"), row.pop("load")
    return {
        "model": scenario["target"]["model"],
        "workload": scenario["workload"],
        **{name: value for name, value in load.items() if value is not None},
        **row,
    }
