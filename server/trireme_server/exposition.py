"""Prometheus' text format: read from Triton's `/metrics`, written on our own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Sample:
    """One line."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Family:
    """A metric with its lines: label values -> value."""

    name: str
    kind: Literal["gauge", "counter"]
    description: str
    samples: Mapping[tuple[tuple[str, str], ...], float] = field(default_factory=dict)


def parse(text: str) -> list[Sample]:
    """Every sample; comments and lines of another form are passed over."""
    matches = (_LINE.match(line) for line in text.splitlines() if not line.startswith("#"))
    return [Sample(m[1], dict(_LABEL.findall(m[2] or "")), float(m[3])) for m in matches if m]


def write(families: Iterable[Family]) -> str:
    """The families in the text format, version 0.0.4."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {family.description}", f"# TYPE {family.name} {family.kind}"]
        for labels, value in family.samples.items():
            inside = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
            lines.append(f"{family.name}{{{inside}}} {value:g}" if inside else f"{family.name} {value:g}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
