"""The truth about the server as one value. The supervisor makes a new one; everyone else reads the latest."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

_FRESH_S = 5.0  # the supervisor publishes four times a second: an older status means that it hangs


class State(str, Enum):
    """What the launcher is about."""

    STARTING = "starting"
    READY = "ready"
    REPAIRING = "repairing"  # some model is being loaded again
    RESTARTING = "restarting"  # the server itself is
    STOPPING = "stopping"


def state_of(is_stopping: bool, has_server: bool, was_ready: bool, is_broken: bool) -> State:
    """`has_server`: one that has brought up its models, and has not gone since."""
    if is_stopping:
        return State.STOPPING
    if not has_server:
        return State.RESTARTING if was_ready else State.STARTING
    return State.REPAIRING if is_broken else State.READY


class ModelPhase(str, Enum):
    """How far a model is."""

    WAITING = "waiting"
    LOADING = "loading"
    LOADED = "loaded"
    ANSWERING = "first answer"
    READY = "ready"
    DEAD = "dead"


@dataclass(frozen=True)
class Counters:
    """What supervision has done so far."""

    server_restarts: int = 0
    model_reloads: Mapping[tuple[str, str], int] = field(default_factory=dict)  # (model, reason)
    connections_closed: int = 0


@dataclass(frozen=True, kw_only=True)
class Status:
    """A snapshot."""

    state: State = State.STARTING
    reason: str = ""  # why it is not ready
    models: Mapping[str, ModelPhase] = field(default_factory=dict)
    entries: Mapping[str, bool] = field(default_factory=dict)  # whether each answers its golden samples
    versions: Mapping[str, int] = field(default_factory=dict)  # by entry, of those that are served
    refused: Mapping[str, str] = field(default_factory=dict)  # by entry: why the version on disk is not served
    server_pid: int | None = None
    counters: Counters = Counters()
    cold_start: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (model, phase) -> seconds
    published_at: float = field(default_factory=time.monotonic)

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.published_at < _FRESH_S

    @property
    def is_ready(self) -> bool:
        """Whether every entry answers rightly, as far as is known now."""
        return self.state is State.READY and self.is_fresh


class Board:
    """Where the latest status hangs. One writer; a reader sees a whole status, old or new."""

    def __init__(self) -> None:
        self.latest = Status()

    def publish(self, status: Status) -> None:
        self.latest = status
