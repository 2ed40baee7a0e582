"""`trireme versions` and `trireme rollback`: the command line."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from trireme_export.rollback import DEFAULT_REPOSITORY, VersionReport, report_versions, roll_back

_repository = click.option(
    "--repository",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_REPOSITORY,
    show_default=True,
)


@click.command()
@click.argument("name")
@_repository
@click.option("--json", "as_json", is_flag=True, help="JSON lines, also on a terminal.")
def versions(name: str, repository: Path, as_json: bool) -> None:
    """List the versions of entry NAME, and say which is in service and which are intact.

    Exit codes: 2 usage, 7 there is no such entry.
    """
    reports = report_versions(repository, name)
    if as_json or not sys.stdout.isatty():
        for report in reports:
            print(json.dumps(dataclasses.asdict(report)))
    else:
        _print_table(reports)


@click.command()
@click.argument("name")
@click.option("--to", type=click.IntRange(min=1), metavar="N", help="Version. Default: the newest of the older ones.")
@_repository
def rollback(name: str, to: int | None, repository: Path) -> None:
    """Put an older version of entry NAME in service, or with --to any.

    Its files are compared with their sha256 first. What is taken out of service stays: --to brings it back.

    Exit codes: 2 usage, 6 the repository cannot be written, 7 there is no such version or it is not as exported.
    """
    before, after = roll_back(repository, name, to)
    instead = "" if before in {None, after} else f" instead of version {before}"
    print(f"{name}: version {after} is in service{instead}")


def _print_table(reports: Sequence[VersionReport]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("version", "", "files", "MiB", "exported", "from", box=SIMPLE_HEAD, show_edge=False)
    for each in reports:
        state = Text(each.fault or "intact", style="red" if each.fault else "green")
        exported = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.exported_at))
        service = "in service" if each.is_active else ""
        table.add_row(str(each.version), service, state, f"{each.size / 2**20:.1f}", exported, Text(each.source))
    Console().print(table)
