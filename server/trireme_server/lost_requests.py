"""Requests that went down with a stub: waits for Triton to answer them, then closes their connections.

A generation of a model is over when its shared-memory regions are gone. One that is still there some time after it
was unloaded holds requests that nobody answers: a stream of a decoupled model, or a long queue that gets its errors
one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trireme_server.connections import CannotBorrow, Connection, close_silent
from trireme_server.processes import Processes
from trireme_server.shared_memory import SHM

_PATIENCE_S = 3.0  # Triton answers what a dead stub was executing after one to two seconds


@dataclass(frozen=True)
class _Loss:
    regions: tuple[str, ...]
    connections: Sequence[Connection] | None
    unloaded_at: float
    still_answered: Callable[[], bool]


class LostRequests:
    """The losses of one server that may still have someone waiting. Times are of `time.monotonic`."""

    def __init__(self, processes: Processes, grpc_port: int, shm: Path = SHM) -> None:
        self._processes = processes
        self._grpc_port = grpc_port
        self._shm = shm
        self._losses: list[_Loss] = []

    def expect(
        self,
        regions: Sequence[str],
        connections: Sequence[Connection] | None,
        unloaded_at: float,
        still_answered: Callable[[], bool] = lambda: False,
    ) -> None:
        """Models with these regions were unloaded after one of their stubs died.

        Args:
            connections: those that were open at that time; None: they cannot be seen here.
            still_answered: whether other stubs of that generation are there that answer everything that waits.
        """
        self._losses.append(_Loss(tuple(regions), connections, unloaded_at, still_answered))

    def close_due(self, server_pid: int, now: float) -> int:
        """Closes the connections of every loss that is due; returns how many.

        Raises:
            CannotBorrow: it is not permitted here.
        """
        late = [loss for loss in self._losses if now - loss.unloaded_at >= _PATIENCE_S]
        due = [loss for loss in late if not loss.still_answered()]
        self._losses = [loss for loss in self._losses if loss not in due]
        held = [loss for loss in due if any((self._shm / region).exists() for region in loss.regions)]
        return sum(self._close(loss, server_pid, now) for loss in held)

    def _close(self, loss: _Loss, server_pid: int, now: float) -> int:
        if loss.connections is None:
            raise CannotBorrow("no permission to use its sockets")
        return close_silent(
            self._processes,
            server_pid,
            loss.connections,
            silent_s=now - loss.unloaded_at,
            multiplexed_port=self._grpc_port,
        )
