"""What `trireme verify` prints: a table for people, JSON lines for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from trireme_server.golden import MAX_LENGTH_CHANGE, Comparison
from trireme_server.verify import Problem, Verdict


def print_json_lines(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """One object per entry and protocol, as soon as it is known."""
    printed = []
    for verdict in verdicts:
        print(json.dumps(_document(verdict)), flush=True)
        printed.append(verdict)
    return printed


def print_table(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """One row per entry and protocol; below, each problem with its fix."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    with console.status("asking"):
        printed = list(verdicts)
    table = Table("entry", "over", "samples", "found (allowed)", "artifacts", box=SIMPLE_HEAD, show_edge=False)
    for verdict in printed:
        color = "red" if verdict.code else "green"
        table.add_row(*(Text(cell, style=color if number == 2 else "") for number, cell in enumerate(_cells(verdict))))
    console.print(table)
    for line in problem_lines(printed):
        console.print(Text(line), soft_wrap=True)
    return printed


def problem_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Each problem once, with everything that has it and what to do about it."""
    subjects: dict[Problem, list[str]] = {}
    for verdict in verdicts:
        for problem in verdict.files.problems:
            subjects.setdefault(problem, []).append(verdict.entry)
        for problem in verdict.replay.problems if verdict.replay else ():
            subjects.setdefault(problem, []).append(f"{verdict.entry} ({verdict.wire.protocol})")
    return [
        f"{', '.join(dict.fromkeys(names))}: {_printable(problem.found)} -> {problem.fix}"
        for problem, names in subjects.items()
    ]


def _cells(verdict: Verdict) -> tuple[str, ...]:
    faults = len(verdict.files.problems)
    artifacts = f"{faults} not as exported" if faults else f"{_artifacts(verdict)} as exported"
    if verdict.replay is None:
        return verdict.entry, verdict.wire.protocol, "-", "a stream of answers: only over gRPC", artifacts
    worst = [each for each in verdict.replay.worst if each.check.kind != "equal" or each.fault]
    found = ", ".join(map(_measure, worst)) or ("all equal" if verdict.replay.worst else "not asked")
    return verdict.entry, verdict.wire.protocol, f"{verdict.replay.right}/{verdict.total}", found, artifacts


def _measure(comparison: Comparison) -> str:
    name, found, bound = comparison.output, comparison.found, comparison.check.bound
    if found is None:
        return f"{name} not comparable"
    if comparison.check.kind == "equal":
        return f"{name} differs"
    if comparison.check.kind == "min_cosine":
        if found >= bound and comparison.fault:
            return f"{name} length off by {comparison.length_change:.2%} (at most {MAX_LENGTH_CHANGE:.0%})"
        return f"{name} cosine {found:.7f} (at least {bound:g})"
    return f"{name} off by {found:.1e} (at most {bound:g})"


def _document(verdict: Verdict) -> dict[str, Any]:
    replay = verdict.replay
    return {
        "entry": verdict.entry,
        "protocol": verdict.wire.protocol,
        "address": verdict.wire.address,
        "ok": not verdict.code,
        "samples": None if replay is None else {"right": replay.right, "total": verdict.total},
        "outputs": [_comparison(each) for each in (replay.worst if replay else ())],
        "artifacts": _artifacts(verdict),
        "problems": [
            {"code": problem.code.value, "found": problem.found, "fix": problem.fix} for problem in verdict.problems
        ],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    found = comparison.found if comparison.found is not None and math.isfinite(comparison.found) else None
    check = comparison.check
    return {"output": comparison.output, "check": check.kind, "found": found, "allowed": check.bound}


def _printable(text: str) -> str:
    """What a stranger's server says may hold control characters."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _artifacts(verdict: Verdict) -> int:
    return len(verdict.files.manifest.artifacts) if verdict.files.manifest else 0
