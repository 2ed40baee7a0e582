"""What a checkpoint says of its licence: every place that says something, since they may contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from trireme_export.checkpoint import Checkpoint

_FILES = ("LICENSE", "LICENCE", "COPYING")  # and LICENSE-MIT, LICENSE.txt
_NOT_TEXT = (".py", ".pyc", ".json")
_READ_BYTES = 65536
_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"^license(?:_name)?:[ \t]*(\S.*)$", re.MULTILINE)
_METADATA = re.compile(r"^License(?:-Expression)?:[ \t]*(\S.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Licence:
    """`text` is a name, or the first line of a licence's own text."""

    place: str
    text: str


def licences(checkpoint: Checkpoint, config: dict[str, Any]) -> Iterator[Licence]:
    """By file; nothing is concluded from them."""
    for name in checkpoint.files:
        for text in _texts(checkpoint, name):
            if text != "UNKNOWN":  # how packages say nothing
                yield Licence(place=name, text=text.strip(" \t\r\"'"))
    if isinstance(config.get("license"), str):
        yield Licence(place="config.json", text=config["license"])


def _texts(checkpoint: Checkpoint, name: str) -> list[str]:
    file = PurePosixPath(name)
    if file.name.upper().startswith(_FILES) and file.suffix.lower() not in _NOT_TEXT:
        lines = [line.strip() for line in _beginning(checkpoint, name).splitlines() if line.strip()]
        return lines[:1]
    if file.name.lower() == "readme.md":
        front = _FRONT_MATTER.match(_beginning(checkpoint, name))
        return _KEY.findall(front[1]) if front else []
    if file.name == "METADATA" and file.parent.name.endswith(".dist-info"):
        return _METADATA.findall(_beginning(checkpoint, name).partition("\n\n")[0])
    return []


def _beginning(checkpoint: Checkpoint, name: str) -> str:
    with checkpoint.path(name).open("rb") as file:
        return file.read(_READ_BYTES).decode(errors="replace")
