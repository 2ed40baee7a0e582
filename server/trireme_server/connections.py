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
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from trireme_server.processes import Processes

_SYS_PIDFD_GETFD = 438  # the same number on every architecture
_LAST_DATA_SENT = 8 + 4 * 9  # offset of tcpi_last_data_sent in struct tcp_info (linux/tcp.h): milliseconds ago


class CannotBorrow(Exception):
    """The kernel does not let this process use another one's sockets, as in a container without CAP_SYS_PTRACE."""


@dataclass(frozen=True)
class Connection:
    """An established connection of a client."""

    inode: str  # names the server's socket for good
    port: int  # the server's


def open_connections(processes: Processes, pid: int, ports: Collection[int]) -> list[Connection]:
    """The connections in which `pid` serves one of `ports`, except those of this process itself.

    Raises:
        CannotBorrow: not permitted here.
    """
    own = _own_addresses(processes)
    found = []
    for inode, borrowed in _borrowed_sockets(pid, processes.sockets(pid)):
        with contextlib.suppress(OSError):  # not connected, or no longer
            port = borrowed.getsockname()[1]
            if port in ports and borrowed.getpeername() not in own:
                found.append(Connection(inode, port))
    return found


def close_silent(
    processes: Processes, pid: int, connections: Collection[Connection], *, silent_s: float, multiplexed_port: int
) -> int:
    """Closes those of `connections` on which the server has sent nothing for `silent_s`; returns how many.

    On `multiplexed_port` (gRPC) a connection carries many requests, so that its other traffic proves nothing: there
    all are closed, and gRPC clients connect anew by themselves.

    Raises:
        CannotBorrow: not permitted here.
    """
    ports = {connection.inode: connection.port for connection in connections}
    open_now = {inode: number for inode, number in processes.sockets(pid).items() if inode in ports}
    closed = 0
    for inode, borrowed in _borrowed_sockets(pid, open_now):
        with contextlib.suppress(OSError):  # the client closed it first
            if ports[inode] == multiplexed_port or _silent_s(borrowed) >= silent_s:
                borrowed.shutdown(socket.SHUT_RDWR)
                closed += 1
    return closed


def can_borrow() -> bool:
    """Whether this process may use another one's sockets; tried on itself."""
    with socket.socket() as own:
        try:
            return any(_borrowed_sockets(os.getpid(), {"own": own.fileno()}))
        except CannotBorrow:
            return False


def _borrowed_sockets(pid: int, descriptors: dict[str, int]) -> Iterator[tuple[str, socket.socket]]:
    """Each of the process's internet sockets in turn, as a duplicate that is closed when the next one comes."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for inode, descriptor in descriptors.items():
            duplicate = int(libc.syscall(_SYS_PIDFD_GETFD, process, descriptor, 0))
            if duplicate >= 0:
                with socket.socket(fileno=duplicate) as borrowed:
                    if borrowed.family in (socket.AF_INET, socket.AF_INET6):
                        yield inode, borrowed
            elif ctypes.get_errno() not in (errno.EBADF, errno.ESRCH):  # else it was closed meanwhile
                raise CannotBorrow(os.strerror(ctypes.get_errno()))
    finally:
        os.close(process)


def _own_addresses(processes: Processes) -> set[Any]:
    """The local addresses of this process's own sockets."""
    addresses = set()
    for descriptor in processes.sockets(os.getpid()).values():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as own:
            addresses.add(own.getsockname())
    return addresses


def _silent_s(connection: socket.socket) -> float:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    (milliseconds,) = struct.unpack_from("I", info, _LAST_DATA_SENT)
    return float(milliseconds) / 1000
