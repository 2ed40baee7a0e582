"""Whether a manifest speaks of the entry and version that it lies in, and of all their files. Compares no content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trireme_server.manifest import Manifest
from trireme_server.repository import Entry

_NO_ARTIFACTS = frozenset({"manifest.json", "__pycache__"})
_BACKUPS = ("~", ".bak", ".orig")  # of editors and patch


def false_claims(manifest: Manifest, entry: Entry) -> Iterator[str]:
    """What it says of itself that is not so."""
    if manifest.entry != entry.name:
        yield f"{manifest.file} is the manifest of another entry, {manifest.entry!r}"
    models = [model.name for model in entry.models]
    if sorted(manifest.models) != sorted(models):
        yield f"{manifest.file} is of the models {', '.join(manifest.models)}; the entry has {', '.join(models)}"
    if str(manifest.version) != manifest.file.parent.name:
        yield f"{manifest.file} is of version {manifest.version}, and lies in that of {manifest.file.parent.name}"


def unnamed_files(manifest: Manifest, entry: Entry) -> Iterator[str]:
    """Files that would be served without a hash to compare them with.

    What lies in the version folders of the models that run something is an artifact, but for the manifest, hidden
    files, `__pycache__` and backups.
    """
    repository = entry.model.folder.parent
    paths = [path.relative_to(repository) for path in _files(entry)]
    unnamed = [path.as_posix() for path in sorted(paths) if path.as_posix() not in manifest.artifacts]
    if unnamed:
        yield f"{manifest.file} does not name {', '.join(unnamed)}"


def _files(entry: Entry) -> Iterator[Path]:
    folders = [model.version_folder for model in entry.steps or (entry.model,)]
    for folder in (each for each in folders if each is not None):
        for path in folder.rglob("*"):
            if path.is_file() and not any(map(_is_none, path.relative_to(folder).parts)):
                yield path


def _is_none(part: str) -> bool:
    return part in _NO_ARTIFACTS or part.startswith(".") or part.endswith(_BACKUPS)
