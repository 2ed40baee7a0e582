"""The versions of an entry: which there are, and which of them Triton is told to serve. No torch: asked at every start.

Version n is the folder n of each model of the entry; its network's holds the manifest, and its ensemble's the configs
of all models. Each config names the version, so that Triton refuses what does not belong together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trireme_export.files import sha256_of
from trireme_export.steps import entry_models

CONFIG = "config.pbtxt"
ACTIVE = "active"
_PINNED = re.compile(r"^version_policy \{\s*specific \{\s*versions: (\d+)\s*\}", re.MULTILINE)  # as protobuf writes it


@dataclass(frozen=True)
class Versions:
    """Those that are whole, and the one that Triton is told to serve; None: none of them."""

    whole: tuple[int, ...]  # ascending
    active: int | None

    @property
    def next(self) -> int:
        return self.whole[-1] + 1 if self.whole else 1

    @property
    def older(self) -> tuple[int, ...]:
        """Than the active one."""
        return tuple(each for each in self.whole if self.active is None or each < self.active)

    @property
    def newer(self) -> tuple[int, ...]:
        """Those that were taken out of service."""
        return tuple(each for each in self.whole if self.active is not None and each > self.active)


def read_versions(repository: Path, entry: str) -> Versions:
    """A version is whole once its manifest is there, which comes last."""
    folders = [path.parent for path in (repository / f"{entry}_network").glob("*/manifest.json")]
    whole = tuple(sorted(int(folder.name) for folder in folders if folder.name.isdigit()))
    active = pinned_version(repository / entry / CONFIG)
    if active is None and (repository / entry / CONFIG).is_file():
        active = max(whole, default=None)  # a config from before there were versions: Triton takes the newest
    return Versions(whole, active if active in whole else None)


def pinned_version(config: Path) -> int | None:
    """The version that a config.pbtxt tells Triton to serve; None: it is not there, or names none."""
    try:
        found = _PINNED.search(config.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return int(found[1]) if found else None


def manifest_file(repository: Path, entry: str, version: int) -> Path:
    """Beside the network's artifact."""
    return repository / f"{entry}_network" / str(version) / "manifest.json"


def stored_config(repository: Path, entry: str, version: int, model: str) -> Path:
    """Where the config of `model` is kept, whatever version is in service."""
    return repository / entry / str(version) / f"{model}.pbtxt"


def read_manifest(repository: Path, entry: str, version: int) -> dict[str, Any] | None:
    """The manifest of a version; None: it is damaged.

    Raises:
        FileNotFoundError: there is none.
    """
    try:
        manifest = json.loads(manifest_file(repository, entry, version).read_bytes())
        parts = (manifest["models"], manifest["artifacts"], manifest["recipe"])
    except (ValueError, KeyError, TypeError):
        return None
    return manifest if all(map(isinstance, parts, (list, dict, str))) else None


def models_of(repository: Path, entry: str, version: int) -> list[str]:
    """The models of a version; where it has no manifest yet, or a damaged one, those that an export makes."""
    try:
        manifest = read_manifest(repository, entry, version)
    except FileNotFoundError:
        manifest = None
    return entry_models(entry) if manifest is None else manifest["models"]


def faults_of(repository: Path, entry: str, version: int) -> Iterator[str]:
    """What of a version is missing or was changed since it was exported.

    Raises:
        FileNotFoundError: it has no manifest.
    """
    manifest = read_manifest(repository, entry, version)
    if manifest is None:
        yield "its manifest is damaged"
        return
    models = manifest["models"]
    kept = {path.stem for path in (repository / entry / str(version)).glob("*.pbtxt")}
    if not kept | {entry, f"{entry}_network"} <= set(models):
        yield "its manifest leaves out models"
    for model in models:
        if not (repository / model / str(version)).is_dir():
            yield f"{model} is incomplete"
    if (repository / entry / ACTIVE).is_symlink():  # else the only configs are those in service
        for config in (stored_config(repository, entry, version, model) for model in models):
            if not config.is_file():
                yield f"{config.relative_to(repository)} is missing"
    for name, expected in manifest["artifacts"].items():
        path = repository / name
        if not path.is_file() or sha256_of(path) != expected["sha256"]:
            yield f"{name} is missing or was changed"
    for path in _artifacts(repository, set(models) - {entry}, version):
        if path not in manifest["artifacts"]:
            yield f"{path} is not in its manifest"


def _artifacts(repository: Path, steps: Iterable[str], version: int) -> Iterator[str]:
    """Files of the steps' version folders. The manifest, hidden files, `__pycache__` and backups are none."""
    for model in sorted(steps):
        folder = repository / model / str(version)
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not any(map(_is_none, path.relative_to(folder).parts)):
                yield path.relative_to(repository).as_posix()


def _is_none(part: str) -> bool:
    return part in {"manifest.json", "__pycache__"} or part.startswith(".") or part.endswith(("~", ".bak", ".orig"))
