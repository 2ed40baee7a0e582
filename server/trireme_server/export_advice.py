"""The command that exports an entry anew. Does not know whether its checkpoint is still where it was."""

from __future__ import annotations

import shlex

from trireme_server.manifest import Manifest

_CATALOGUE = ("embed", "guard", "vision")  # entries that `trireme export` knows by name


def export_anew(entry: str, manifest: Manifest | None) -> str:
    """`manifest` is None if there is none to read; one of another entry says nothing of this one's checkpoint."""
    if entry in _CATALOGUE:
        return f"trireme export {entry} --force"
    if manifest is None or manifest.source is None or manifest.entry != entry:
        return f"export it again from its checkpoint: trireme export CHECKPOINT --name {shlex.quote(entry)} --force"
    return f"trireme export {shlex.quote(manifest.source)} --name {shlex.quote(entry)} --force"
