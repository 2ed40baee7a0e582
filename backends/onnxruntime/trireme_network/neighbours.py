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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RECENTLY_S = 0.05  # one that computed so long ago most likely will again: it waits for its next requests
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid


class Neighbours:
    """The other processes that compute."""

    def __init__(self, file: Path = Path(__file__)) -> None:
        self._descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        self._met_at = -math.inf

    @contextmanager
    def computing(self) -> Iterator[bool]:
        """Tells the others, inside the `with` block, that this process computes; gives whether one of them does.

        "Yes" is kept for _RECENTLY_S: a process between two answers is about to compute again.
        """
        self._call(fcntl.F_OFD_SETLK, fcntl.F_RDLCK)
        try:
            now = time.monotonic()
            if self._call(fcntl.F_OFD_GETLK, fcntl.F_WRLCK) != fcntl.F_UNLCK:
                self._met_at = now
            yield now - self._met_at < _RECENTLY_S
        finally:
            self._call(fcntl.F_OFD_SETLK, fcntl.F_UNLCK)

    def close(self) -> None:
        """Be no neighbour any more."""
        os.close(self._descriptor)

    def _call(self, command: int, lock: int) -> int:
        """The lock's type afterwards; of a query: that of another's lock which a lock of this type would meet."""
        question = struct.pack(_FLOCK, lock, os.SEEK_SET, 0, 1, 0)
        try:
            answer = fcntl.fcntl(self._descriptor, command, question)
        except OSError:  # a file system without locks: everybody takes all cores, which is slower and not wrong
            return fcntl.F_UNLCK
        return int(struct.unpack(_FLOCK, answer)[0])
