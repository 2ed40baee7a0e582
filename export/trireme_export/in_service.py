"""Puts a version of an entry in service, in one rename.

`NAME/active` is a link to the ensemble's folder of a version, where the configs of all models lie, and each model's
config.pbtxt is a link through it. So what Triton finds is the old version or the new one, whenever a program is killed.
As long as an entry has had one version only its configs may be plain files, as those are that are committed.
"""

from __future__ import annotations

import filecmp
import os
from pathlib import Path

from trireme_export.files import write_whole
from trireme_export.versions import ACTIVE, CONFIG, models_of, read_versions, stored_config


def put_in_service(repository: Path, entry: str, version: int, scratch: Path) -> None:
    """Tells Triton to serve `version`, whose folder of the ensemble is there.

    Args:
        scratch: a folder on the repository's file system, for what is about to be renamed.
    """
    pin_active(repository, entry, scratch)
    models = models_of(repository, entry, version)
    for model in models:
        os.utime(stored_config(repository, entry, version, model))  # Triton loads again what is newer than it was
    _point(repository, entry, version, scratch)
    for model in models:  # has something to do only where no version was in service
        config = repository / model / CONFIG
        if not config.is_file() or not filecmp.cmp(config, stored_config(repository, entry, version, model), False):
            _link_config(repository, entry, model, scratch)


def pin_active(repository: Path, entry: str, scratch: Path) -> None:
    """Makes all configs links to those of the version in service, so that one rename can switch them."""
    active = read_versions(repository, entry).active
    if active is None or not _keep_configs(repository, entry, active):
        return
    _point(repository, entry, active, scratch)
    for model in models_of(repository, entry, active):
        if not (repository / model / CONFIG).is_symlink():
            _link_config(repository, entry, model, scratch)


def _keep_configs(repository: Path, entry: str, version: int) -> bool:
    """Keeps the configs of the version in service, if the exporter that made it did not yet.

    False: one is missing, and Triton cannot load the entry anyway.
    """
    for model in models_of(repository, entry, version):
        stored, config = stored_config(repository, entry, version, model), repository / model / CONFIG
        if stored.is_file():
            continue
        if not config.is_file():
            return False
        from trireme_export.triton_config import pinned

        write_whole(stored, pinned(config.read_text(encoding="utf-8"), version).encode())
        flush(stored)
    return True


def _point(repository: Path, entry: str, version: int, scratch: Path) -> None:
    """The switch, where all configs are links."""
    link = repository / entry / ACTIVE
    if not link.is_symlink() or link.readlink() != Path(str(version)):
        _put_link(scratch, link, str(version))


def _link_config(repository: Path, entry: str, model: str, scratch: Path) -> None:
    folder = ACTIVE if model == entry else f"../{entry}/{ACTIVE}"
    _put_link(scratch, repository / model / CONFIG, f"{folder}/{model}.pbtxt")


def _put_link(scratch: Path, link: Path, target: str) -> None:
    """Relative, so that the repository can be moved."""
    new = scratch / f".new-{link.name}"
    new.symlink_to(target)
    link.parent.mkdir(exist_ok=True)
    new.replace(link)
    flush(link.parent)


def flush(path: Path) -> None:
    """Onto the disk, so that a power cut after a rename finds the content too."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
