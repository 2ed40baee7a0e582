"""The seam between the exporter and what makes artifacts: one module for each target (`targets.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from trireme_export.assembly import Assembly
from trireme_export.kinds import ArtifactKind
from trireme_export.runtimes import Runtime
from trireme_export.targets import Target


@dataclass(frozen=True, kw_only=True)
class Made:
    """What is to be known of an artifact besides its files."""

    facts: Mapping[str, object]  # for the manifest, beside its own keys
    notes: tuple[str, ...] = ()  # for the terminal: what was kept in fp32


class Maker(Protocol):
    """The module of a target."""

    def write(self, assembly: Assembly, kind: ArtifactKind, folder: Path) -> Made:
        """Put the target's files into `folder`, the network's version folder, and nothing else.

        Raises:
            ExportError: the network cannot be written so; the text says why, where, and what to do.
        """
        ...

    def runtimes(self, folder: Path) -> Iterator[Runtime]:
        """What runs these files here, one after the other, for the parity gate. At least one.

        Raises:
            ExportError: nothing that can is installed here.
        """
        ...


def maker_of(target: Target) -> Maker:
    """Imports the target's module."""
    return cast(Maker, import_module(target.maker))
