"""Whether an entry is already in the repository, whole and unchanged. No torch: this is asked at every start."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from trireme_export.catalogue import Entry
from trireme_export.errors import InstallFailed
from trireme_export.install import GENERATED
from trireme_export.steps import entry_models
from trireme_export.versions import (
    CONFIG,
    faults_of,
    manifest_file,
    models_of,
    pinned_version,
    read_manifest,
    read_versions,
)


def manifest_path(repository: Path, entry: str) -> Path:
    """Of the version in service; of the first where there is none."""
    return manifest_file(repository, entry, read_versions(repository, entry).active or 1)


def why_export(repository: Path, entry: str, recipe: str) -> str | None:
    """Why `entry` has to be exported; None when it is there, made by the same recipe, and every hash fits."""
    versions = read_versions(repository, entry)
    if versions.active is None:
        return "no version of it is in service" if versions.whole else "not exported yet"
    manifest = read_manifest(repository, entry, versions.active)
    if manifest is not None and manifest["recipe"] != recipe:
        return "exported from another checkpoint or by another version"
    return next(_faults_in_service(repository, entry, versions.active), None)


def rolled_back_from(repository: Path, entry: str, recipe: str) -> int | None:
    """The intact version made by `recipe` that was taken out of service for an older one, which is intact as well."""
    versions = read_versions(repository, entry)
    if versions.active is None or any(_faults_in_service(repository, entry, versions.active)):
        return None
    for version in reversed(versions.newer):
        manifest = read_manifest(repository, entry, version)
        if manifest is not None and manifest["recipe"] == recipe and not any(faults_of(repository, entry, version)):
            return version
    return None


def _faults_in_service(repository: Path, entry: str, version: int) -> Iterator[str]:
    for model in models_of(repository, entry, version):
        config = repository / model / CONFIG
        if not config.is_file() or pinned_version(config) not in {None, version}:
            yield f"{model} is incomplete"
    yield from faults_of(repository, entry, version)


def check_name_is_free(repository: Path, entry: Entry, *, may_follow: bool = False) -> None:
    """No other checkpoint's entry, and no model of another origin, has a name that `entry` would take.

    Args:
        may_follow: an entry of the same name from another checkpoint is no hindrance: this one is its next version.

    Raises:
        InstallFailed: one has.
    """
    models = entry_models(entry.name)
    _check_all_are_generated(repository, models)
    for path in repository.glob("*_network/[0-9]*/manifest.json"):
        try:
            manifest = json.loads(path.read_bytes())
            other, taken, source = manifest["entry"], manifest["models"], manifest["source"]["uri"]
        except (ValueError, KeyError, TypeError):
            continue  # damaged: it says no more of whose it is
        same_checkpoint = _origin(source) in {_origin(own.uri) for own in entry.sources}
        if other == entry.name and (same_checkpoint or may_follow):
            continue
        if set(models) & set(taken):
            follow = f"say --name {other} to make this its next version, " if other == entry.name else ""
            raise InstallFailed(f"{repository} has an entry {other} of {source}; {follow}or choose another --name")


def _check_all_are_generated(repository: Path, models: Sequence[str]) -> None:
    for folder in (repository / model for model in models):
        files = (path for path in folder.rglob("*") if path.is_file())
        if not _is_generated(folder / CONFIG) and not all(map(_is_generated, files)):
            raise InstallFailed(
                f"{folder} is a model that was not written by this command; "
                "choose another --name, or move that folder elsewhere"
            )


def _is_generated(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(len(GENERATED)) == GENERATED.encode()


def _origin(uri: str) -> str:
    """A checkpoint's address without version, revision and hash."""
    scheme, separator, place = uri.partition("://")
    return f"{scheme}://{re.split('@|==', place)[0]}" if separator else str(Path(uri).resolve())
