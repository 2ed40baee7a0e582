"""An entry gets into the repository: written aside, then switched in by renames, so that a kill leaves what was there.

One entry is four model folders, and no file system renames four folders at once. What comes last decides: the version
folder of the network, which holds the manifest. Until then a new entry has no manifest and is not there. When an entry
is replaced, a folder whose content stays (tokenizer, labels, configs: mostly all but the network's) is not touched, and
each other one is exchanged by a single rename. A kill between two of these renames, microseconds apart, leaves an old
manifest whose hashes do not fit: the next export sees that and writes the entry anew.
"""

from __future__ import annotations

import ctypes
import fcntl
import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from trireme_export.errors import InstallFailed

STAGING = ".trireme-staging-"
CONFIG = "config.pbtxt"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def staging_folder(repository: Path) -> Iterator[Path]:
    """A folder inside `repository`, on its file system, for one export at a time; what killed exports left is removed.

    Raises:
        InstallFailed: another export runs, or the repository cannot be written.
    """
    try:
        repository.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(repository, os.O_RDONLY)
    except OSError as error:
        raise InstallFailed(
            f"{repository}: {error.strerror}; make it writable, or choose another --repository"
        ) from error
    try:
        _lock(descriptor, repository)
        for left_behind in repository.glob(f"{STAGING}*"):
            shutil.rmtree(left_behind, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=STAGING, dir=repository, ignore_cleanup_errors=True) as folder:
            yield Path(folder)
    except PermissionError as error:
        raise InstallFailed(f"{repository}: {error.strerror}: {error.filename}") from error
    finally:
        os.close(descriptor)


def _lock(descriptor: int, repository: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InstallFailed(f"{repository}: another export is writing to it; wait until it has ended") from error


def install(staged: Path, repository: Path, models: Sequence[str], version: str = "1") -> None:
    """Switch `models` from `staged` into `repository`; the last one holds the manifest."""
    for path in staged.rglob("*"):
        _flush(path)
    for model in models:
        (repository / model).mkdir(exist_ok=True)
        _switch(staged / model / CONFIG, repository / model / CONFIG)
        _switch(staged / model / version, repository / model / version)
        _flush(repository / model)


def _switch(new: Path, target: Path) -> None:
    """Put `new` in the place of `target`, in one rename; what was there is left in `new`."""
    if target.exists() and _same(new, target):
        return
    if new.is_dir() and target.exists():
        _exchange(new, target)
    else:
        new.replace(target)


def _same(new: Path, target: Path) -> bool:
    if new.is_file():
        return target.is_file() and filecmp.cmp(new, target, shallow=False)
    names = sorted(path.name for path in new.iterdir())
    if names != sorted(path.name for path in target.iterdir()):
        return False
    return all(_same(new / name, target / name) for name in names)


def _exchange(new: Path, target: Path) -> None:
    """renameat2(2) with RENAME_EXCHANGE; two renames on a file system that cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(target), _RENAME_EXCHANGE) == 0:
        return
    aside = new.with_name(f"{new.name}-replaced")
    target.replace(aside)
    new.replace(target)


def _flush(path: Path) -> None:
    """Onto the disk, so that a power cut after the renames finds the content too."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
