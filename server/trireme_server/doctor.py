"""`trireme doctor`: every check as a report, fine or not."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from trireme_server import binding_checks, machine_checks, repository_checks, software_checks
from trireme_server.exit_codes import ExitCode
from trireme_server.preflight import Finding, Level, look_around, run_checks
from trireme_server.serve_config import ServeConfig

CHECKS = (*software_checks.THOROUGH_CHECKS, *machine_checks.CHECKS, *repository_checks.CHECKS, *binding_checks.CHECKS)
_COLORS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def examine(config: ServeConfig, *, as_json: bool) -> ExitCode:
    """Prints every finding; the exit code says whether `trireme serve` would start."""
    around = look_around(config)
    findings = list(run_checks(CHECKS, around))
    failed = any(finding.level is Level.FAIL for finding in findings)
    if as_json:
        print(json.dumps({"ok": not failed, "cores": around.machine.cores, "findings": _documents(findings)}, indent=2))
    else:
        _print_table(findings)
    return ExitCode.PREFLIGHT_FAILED if failed else ExitCode.STOPPED


def _documents(findings: Sequence[Finding]) -> list[dict[str, str]]:
    return [{"check": each.name, "level": each.level.value, "found": each.found, "fix": each.fix} for each in findings]


def _print_table(findings: Sequence[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("check", "", "found", "fix", show_edge=False)
    for each in findings:
        level = Text(each.level.value, style=_COLORS[each.level])
        table.add_row(Text(each.name), level, Text(each.found), Text(each.fix))
    width = None if sys.stdout.isatty() else 200
    Console(width=width).print(table)
