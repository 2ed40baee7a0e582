"""Whether an entry is already in the repository, whole and unchanged. No torch: this is asked at every start."""

from __future__ import annotations

import json
import re
from pathlib import Path

from trireme_export.catalogue import Entry
from trireme_export.errors import InstallFailed
from trireme_export.files import sha256_of
from trireme_export.install import CONFIG


def manifest_path(repository: Path, entry: str) -> Path:
    """Beside the network's artifact."""
    return repository / f"{entry}_network" / "1" / "manifest.json"


def why_export(repository: Path, entry: str, recipe: str) -> str | None:
    """Why `entry` has to be exported; None when it is there, made by the same recipe, and every hash fits."""
    try:
        manifest = json.loads(manifest_path(repository, entry).read_bytes())
        models, artifacts, made_by = manifest["models"], manifest["artifacts"], manifest["recipe"]
    except FileNotFoundError:
        return "not exported yet"
    except (ValueError, KeyError, TypeError):
        return "its manifest is damaged"
    if made_by != recipe:
        return "exported from another checkpoint or by another version"
    for model in models:
        if not (repository / model / CONFIG).is_file() or not (repository / model / "1").is_dir():
            return f"{model} is incomplete"
    for name, expected in artifacts.items():
        path = repository / name
        if not path.is_file() or sha256_of(path) != expected["sha256"]:
            return f"{name} is missing or was changed"
    return None


def check_name_is_free(repository: Path, entry: Entry) -> None:
    """No other checkpoint's entry has the name of `entry`.

    Raises:
        InstallFailed: one has.
    """
    try:
        source = json.loads(manifest_path(repository, entry.name).read_bytes())["source"]["uri"]
    except (OSError, ValueError, KeyError, TypeError):
        return  # nothing there, or nothing that can be told apart from what a damaged disk leaves
    if _origin(source) not in {_origin(own.uri) for own in entry.sources}:
        raise InstallFailed(
            f"{repository} has an entry {entry.name} of {source}; "
            f"choose another --name, or delete its folders {entry.name} and {entry.name}_*"
        )


def _origin(uri: str) -> str:
    """A checkpoint's address without version, revision and hash."""
    scheme, separator, place = uri.partition("://")
    return f"{scheme}://{re.split('@|==', place)[0]}" if separator else str(Path(uri).resolve())
