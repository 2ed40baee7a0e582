"""The commands that bring a right version of an entry. Does not know whether its checkpoint is still where it was."""

from __future__ import annotations

import shlex

from trireme_server.manifest import Manifest
from trireme_server.repository import Entry

_CATALOGUE = ("embed", "guard", "vision")  # entries that `trireme export` knows by name


def export_anew(entry: str, manifest: Manifest | None) -> str:
    """`manifest` is None if there is none to read; one of another entry says nothing of this one's checkpoint."""
    if entry in _CATALOGUE:
        return f"trireme export {entry} --force"
    if manifest is None or manifest.source is None or manifest.entry != entry:
        return f"export it again from its checkpoint: trireme export CHECKPOINT --name {shlex.quote(entry)} --force"
    return f"trireme export {shlex.quote(manifest.source)} --name {shlex.quote(entry)} --force"


def roll_back(entry: Entry) -> str:
    """What follows a complaint about the version in service; empty where there is no older one."""
    older = [each for each in entry.model.versions if entry.model.version is not None and each < entry.model.version]
    return f"; `trireme rollback {shlex.quote(entry.name)}` goes back to version {older[0]}" if older else ""


def roll_back_to(entry: str, version: int | None) -> str:
    """The command that puts `version` in service on disk."""
    return f"`trireme rollback {shlex.quote(entry)} --to {version}`"
