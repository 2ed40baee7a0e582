"""The version that is served, kept from an export that removes old ones. Does not know whether there will be any.

An export asks for a lock of its own on the folder of the ensemble before it removes a version (docs/contracts.md, 1).
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class HeldVersion:
    """A shared lock on the folder of a version, until `release` or the end of this process."""

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        with suppress(OSError):  # a file system without locks: the version is served nevertheless
            self._descriptor = os.open(folder, os.O_RDONLY)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None
