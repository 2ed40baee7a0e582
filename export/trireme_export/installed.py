"""Whether an entry is already in the repository, whole and unchanged. No torch: this is asked at every start."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from trireme_export.catalogue import Entry
from trireme_export.errors import InstallFailed
from trireme_export.files import sha256_of
from trireme_export.install import CONFIG, GENERATED
from trireme_export.steps import entry_models


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
    """No other checkpoint's entry, and no model of another origin, has a name that `entry` would overwrite.

    Raises:
        InstallFailed: one has.
    """
    models = entry_models(entry.name)
    _check_all_are_generated(repository, models)
    for path in repository.glob("*_network/1/manifest.json"):
        try:
            manifest = json.loads(path.read_bytes())
            other, taken, source = manifest["entry"], manifest["models"], manifest["source"]["uri"]
        except (ValueError, KeyError, TypeError):
            continue  # damaged: it says no more of whose it is
        same_checkpoint = other == entry.name and _origin(source) in {_origin(own.uri) for own in entry.sources}
        if not same_checkpoint and set(models) & set(taken):
            raise InstallFailed(
                f"{repository} has an entry {other} of {source}; "
                f"choose another --name, or delete its folders {', '.join(taken)}"
            )


def _check_all_are_generated(repository: Path, models: Sequence[str]) -> None:
    for model in models:
        config = repository / model / CONFIG
        written = any(path.is_file() for path in config.parent.rglob("*"))
        if written and not (config.is_file() and config.read_text(errors="replace").startswith(GENERATED)):
            raise InstallFailed(
                f"{config.parent} is a model that was not written by this command; "
                "choose another --name, or move that folder elsewhere"
            )


def _origin(uri: str) -> str:
    """A checkpoint's address without version, revision and hash."""
    scheme, separator, place = uri.partition("://")
    return f"{scheme}://{re.split('@|==', place)[0]}" if separator else str(Path(uri).resolve())
