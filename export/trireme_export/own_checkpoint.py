"""What a user says of a checkpoint of their own becomes an entry: its address, and a name if they give none."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from trireme_export.catalogue import CATALOGUE, Entry, OwnModel, Source
from trireme_export.kinds import ONNX_FP32, ArtifactKind
from trireme_export.steps import entry_models

NAME = "letters, digits, _ and -, beginning with a letter or a digit, at most 64"


class InvalidName(ValueError):
    """A name that no entry can have; the text says what is allowed."""


def own_entry(
    uri: str, name: str | None, task: OwnModel, *, kind: ArtifactKind = ONNX_FP32, allow_pickle: bool = False
) -> Entry:
    """The entry of a checkpoint at `uri`.

    Raises:
        InvalidName: Triton or the catalogue cannot have that name.
    """
    source = Source(uri=uri if "://" in uri else str(Path(uri).resolve()), allow_pickle=allow_pickle)
    return Entry(name=_checked(name or default_name(source.uri)), sources=(source,), task=task, kind=kind)


def default_name(uri: str) -> str:
    """The last part of an address without version, as letters, digits, `_` and `-`."""
    _, _, place = uri.rpartition("://")
    last = PurePosixPath(re.split("@|==", place)[0]).name if "://" in uri else Path(uri).name
    return re.sub(r"[^A-Za-z0-9_-]+", "_", last).strip("_-")[:64]


def _checked(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
        raise InvalidName(f"an entry cannot be called {name!r}; a name is {NAME}")
    for known in CATALOGUE:
        if name in entry_models(known):
            raise InvalidName(f"{name!r} is a name of the catalogue's entry {known}; choose another --name")
    return name
