"""Ends the client connections that wait for an answer a dead stub will never give.

Triton 2.51 loses the requests of a decoupled stub that dies: their responses would have come from its threads, and
nothing tells the client. Requests that queue for a dead stub get their errors one by one, a second each. So the
launcher closes those connections on the server's side: it borrows the server's sockets (man 2 pidfd_getfd) and shuts
them down, and the client sees a closed connection at once. Models and all other connections stay as they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from trireme_server.processes import Processes

_SYS_PIDFD_GETFD = 438  # the same number on every architecture
_ESTABLISHED = "01"  # the state in /proc/net/tcp
_LAST_DATA_SENT = 8 + 4 * 9  # offset of tcpi_last_data_sent in struct tcp_info (linux/tcp.h): milliseconds ago


class CannotBorrow(Exception):
    """The kernel does not let this process use another one's sockets, as in a container without CAP_SYS_PTRACE."""


@dataclass(frozen=True)
class Connection:
    """An established connection of a client."""

    inode: str
    port: int  # the server's


def open_connections(processes: Processes, pid: int, ports: set[int]) -> list[Connection]:
    """The connections in which `pid` serves one of `ports`, except those of this process itself."""
    rows = _established(processes, pid)
    own = processes.sockets(os.getpid())
    own_addresses = {row.local for row in rows if row.inode in own}
    clients = (row for row in rows if row.port in ports and row.remote not in own_addresses)
    return [Connection(row.inode, row.port) for row in clients]


@dataclass(frozen=True)
class _Row:
    """One socket of a network namespace (kernel documentation, networking/proc_net_tcp)."""

    local: str
    remote: str
    inode: str

    @property
    def port(self) -> int:
        return int(self.local.rpartition(":")[2], 16)


def _established(processes: Processes, pid: int) -> list[_Row]:
    lines = processes.network_table(pid, "tcp") + processes.network_table(pid, "tcp6")
    fields = (line.split() for line in lines)
    return [_Row(each[1], each[2], each[9]) for each in fields if each[3] == _ESTABLISHED]


def close_silent(
    processes: Processes, pid: int, connections: list[Connection], *, silent_s: float, multiplexed_port: int
) -> int:
    """Closes those of `connections` on which the server has sent nothing for `silent_s`; returns how many.

    On `multiplexed_port` (gRPC) a connection carries many requests, so that its other traffic proves nothing: there
    all are closed, and gRPC clients connect anew by themselves.

    Raises:
        CannotBorrow: not permitted here.
    """
    descriptors = processes.sockets(pid)
    closed = 0
    for connection in connections:
        if connection.inode not in descriptors:
            continue
        with _borrowed(pid, descriptors[connection.inode]) as borrowed:
            if borrowed is None:
                continue
            if connection.port == multiplexed_port or _silent_s(borrowed) >= silent_s:
                borrowed.shutdown(socket.SHUT_RDWR)
                closed += 1
    return closed


def can_borrow() -> bool:
    """Whether this process may use another one's sockets; tried on itself."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            os.close(_get_descriptor(os.getpid(), ours.fileno()))
        except OSError:
            return False
    return True


@contextmanager
def _borrowed(pid: int, descriptor: int) -> Iterator[socket.socket | None]:
    """A duplicate of the server's socket; None if it was closed meanwhile."""
    try:
        duplicate = socket.socket(fileno=_get_descriptor(pid, descriptor))
    except OSError as error:
        if error.errno not in (errno.EBADF, errno.ESRCH):
            raise CannotBorrow(str(error)) from error
        yield None
        return
    with duplicate, contextlib.suppress(OSError):  # the client closed it first
        yield duplicate


def _silent_s(connection: socket.socket) -> float:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    (milliseconds,) = struct.unpack_from("I", info, _LAST_DATA_SENT)
    return float(milliseconds) / 1000


def _get_descriptor(pid: int, descriptor: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        duplicate = int(libc.syscall(_SYS_PIDFD_GETFD, process, descriptor, 0))
    finally:
        os.close(process)
    if duplicate < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return duplicate
