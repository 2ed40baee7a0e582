"""Whether another network computes on this machine right now, so that each takes only its share of the cores.

Every instance of every model is a process of its own. While it computes it holds a shared lock on one byte of a file
that all of them can open, this one. The kernel drops the lock of a process that dies, so nothing is ever left behind.
Locks of the open file description (fcntl(2), F_OFD_SETLK) are used: closing another descriptor does not drop them.
"""

from __future__ import annotations

import fcntl
import math
import os
import struct
import time
from pathlib import Path

_RECENTLY_S = 0.05  # one that computed so long ago most likely will again: it waits for its next requests
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid
_TYPE = slice(0, 2)
_COMPUTES, _ASKS, _DONE = (
    struct.pack(_FLOCK, lock, os.SEEK_SET, 0, 1, 0) for lock in (fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK)
)


class Neighbours:
    """The other processes that compute. A context manager around what this one computes."""

    def __init__(self, file: Path = Path(__file__)) -> None:
        self._descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        self._met_at = -math.inf

    def __enter__(self) -> bool:
        """Tells the others, inside the `with` block, that this process computes; gives whether one of them does.

        One that computed less than _RECENTLY_S ago counts: it is about to compute again.
        """
        self._call(fcntl.F_OFD_SETLK, _COMPUTES)
        return self._is_crowded()

    def __exit__(self, *exception: object) -> None:
        """Tells the others that it does no more."""
        self._call(fcntl.F_OFD_SETLK, _DONE)

    def close(self) -> None:
        """Be no neighbour any more."""
        os.close(self._descriptor)

    def _is_crowded(self) -> bool:
        """Whoever was met a moment ago is not looked for again: a call of the kernel costs more than the rest."""
        now = time.monotonic()
        if now - self._met_at > _RECENTLY_S / 2 and self._call(fcntl.F_OFD_GETLK, _ASKS)[_TYPE] != _DONE[_TYPE]:
            self._met_at = now
        return now - self._met_at < _RECENTLY_S

    def _call(self, command: int, lock: bytes) -> bytes:
        """The lock afterwards; of a query: another's lock that this one would meet, or _DONE."""
        try:
            return fcntl.fcntl(self._descriptor, command, lock)
        except OSError:  # a file system without locks: everybody takes all cores, which is slower and not wrong
            return _DONE
