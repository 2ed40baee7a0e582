"""What could keep the server from starting or from staying up, found before it is started.

A check is a small function that yields findings; a finding that is not fine says exactly what to do. The checks live
in `machine_checks`, `software_checks` and `repository_checks`; `preflight` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from trireme_server.find_server import Installation, ServerNotFound, find_installation
from trireme_server.machine import Machine, read_machine
from trireme_server.manifest import InvalidManifest, Manifest, read_manifest
from trireme_server.processes import Processes
from trireme_server.repository import Entry, RepositoryError, read_repository
from trireme_server.serve_config import ServeConfig


class Level(str, Enum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    level: Level
    found: str
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the checks look at."""

    config: ServeConfig
    processes: Processes
    machine: Machine
    installation: Installation | None  # None: none was found
    entries: tuple[Entry, ...]  # empty when the repository cannot be read
    manifests: Mapping[str, Manifest]  # by entry; those that could be read


Check = Callable[[Surroundings], Iterable[Finding]]


def ok(name: str, found: str) -> Finding:
    return Finding(name, Level.OK, found)


def warn(name: str, found: str, fix: str) -> Finding:
    return Finding(name, Level.WARN, found, fix)


def fail(name: str, found: str, fix: str) -> Finding:
    return Finding(name, Level.FAIL, found, fix)


def look_around(config: ServeConfig) -> Surroundings:
    """Finds what there is. What is missing is left to the checks to report."""
    installation: Installation | None = None
    entries: tuple[Entry, ...] = ()
    with suppress(ServerNotFound):
        installation = find_installation()
    with suppress(RepositoryError):
        entries = read_repository(config.repository).entries(config.entries)
    manifests = {}
    for entry in entries:
        if (file := entry.manifest_file) is not None:
            with suppress(InvalidManifest):
                manifests[entry.name] = read_manifest(file)
    return Surroundings(
        config=config,
        processes=Processes(),
        machine=read_machine(),
        installation=installation,
        entries=entries,
        manifests=manifests,
    )


def run_checks(checks: Iterable[Check], surroundings: Surroundings) -> Iterator[Finding]:
    """Every finding of every check, in order."""
    for check in checks:
        yield from check(surroundings)


def mebibytes(size: float) -> str:
    """A size for people: 12 MiB, 3.4 GiB."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
