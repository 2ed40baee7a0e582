"""What an AOTInductor package says of itself: its tensors, and the machine it was compiled for. Knows no torch.

A `.pt2` file is a zip archive with a shared library in it. The exporter puts a description beside that, under the key
`trireme` of its metadata (docs/contracts.md, 3).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from trireme_network.graph import Graph, GraphTensor
from trireme_network.model_config import ConfigRefused

_LIBRARY, _METADATA = ".wrapper.so", ".wrapper_metadata.json"
_AGAIN = "export it again where it is to be served: `trireme export CHECKPOINT --to aoti`"


@dataclass(frozen=True)
class Table:
    """A table whose rows the network looks up."""

    rows: int
    input: str | None  # whose values are the rows' numbers; None: they are computed


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package's description. The library returns the graph's output, and how many lookups missed each table."""

    file: Path
    library: str  # its name in the archive
    graph: Graph
    tables: tuple[Table, ...]
    torch: str  # version, without the local part
    cpu_flags: frozenset[str]  # of /proc/cpuinfo: instructions that the library may use


def read_package(file: Path) -> Package:
    """The description in the package `file`.

    Raises:
        ConfigRefused: there is no such file, or it is no package of the exporter's.
    """
    if not file.exists():
        raise ConfigRefused(f"unable to find {str(file)!r}")
    try:
        with zipfile.ZipFile(file) as archive:
            (library,) = (name for name in archive.namelist() if name.endswith(_LIBRARY))
            (metadata,) = (name for name in archive.namelist() if name.endswith(_METADATA))
            description = json.loads(json.loads(archive.read(metadata))["trireme"])
        return Package(
            file=file,
            library=library,
            graph=Graph(inputs=_tensors(description["inputs"]), outputs=_tensors(description["outputs"])),
            tables=tuple(Table(each["rows"], each["input"]) for each in description["tables"]),
            torch=description["torch"],
            cpu_flags=frozenset(description["cpu_flags"]),
        )
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
        raise ConfigRefused(f"{file} is no package that `trireme export --to aoti` wrote: {error}") from error


def refuse_elsewhere(package: Package, cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """A library that meets another torch, or instructions that the CPU lacks, ends the process: it is not loaded.

    Raises:
        ConfigRefused: this is another machine than the package was compiled for.
    """
    for reason in _differences(package, cpuinfo):
        raise ConfigRefused(f"{package.file.name} was compiled for {reason}; {_AGAIN}")


def _differences(package: Package, cpuinfo: Path) -> Iterator[str]:
    installed = _installed_torch()
    if installed is None:
        yield f"torch {package.torch}, and none is installed here (pip install torch=={package.torch})"
    elif installed != package.torch:
        yield f"torch {package.torch}, and here is {installed}"
    missing = package.cpu_flags - _cpu_flags(cpuinfo)
    if missing:
        yield f"a CPU with {', '.join(sorted(missing))}, which this one lacks"


def _installed_torch() -> str | None:
    """Its version without the local part: +cpu and +cu130 compute alike on a CPU."""
    try:
        return version("torch").partition("+")[0]
    except PackageNotFoundError:
        return None


def _cpu_flags(cpuinfo: Path) -> set[str]:
    for line in cpuinfo.read_text().splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


def _tensors(entries: list[Mapping[str, Any]]) -> tuple[GraphTensor, ...]:
    return tuple(GraphTensor(each["name"], each["data_type"], tuple(each["shape"])) for each in entries)
