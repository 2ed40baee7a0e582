"""What the worker threads tell the supervisor. Messages only: whoever gets one may keep it.

`generation` counts the servers started so far; a message about an earlier one is old news.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from trireme_server.connections import Connection
from trireme_server.mending import Repair
from trireme_server.phases import EntryStart
from trireme_server.status import ModelPhase
from trireme_server.stub_watch import ModelProgress
from trireme_server.swap import Swap


@dataclass(frozen=True)
class StopRequested:
    """A signal that asks the launcher to end."""

    signal_name: str


@dataclass(frozen=True)
class ServerLive:
    """tritonserver answers its liveness endpoint."""

    generation: int
    at: float


@dataclass(frozen=True)
class ModelReached:
    """A model got to a phase of its load."""

    generation: int
    model: str
    phase: ModelPhase


@dataclass(frozen=True)
class BroughtUp:
    """Every entry has answered its golden samples."""

    generation: int
    entries: Mapping[str, EntryStart]


@dataclass(frozen=True)
class BringUpFailed:
    """A model did not load, or gave a wrong answer; `may_pass`: another attempt may succeed."""

    generation: int
    reason: str
    may_pass: bool


@dataclass(frozen=True)
class Unloaded:
    """The models were taken out of service; `connections` may wait for answers of what was lost with them.

    None: the connections cannot be seen here.
    """

    generation: int
    repair: Repair
    at: float
    connections: tuple[Connection, ...] | None


@dataclass(frozen=True)
class Repaired:
    """The models are loaded again and the entries that use them have answered."""

    generation: int
    repair: Repair


@dataclass(frozen=True)
class RepairFailed:
    """They could not be."""

    generation: int
    repair: Repair
    reason: str


@dataclass(frozen=True)
class Proved:
    """The candidates of a new version have answered their golden samples."""

    generation: int
    swap: Swap


@dataclass(frozen=True)
class SwitchedOver:
    """New requests to the entry go to its new version, which runs as candidates."""

    generation: int
    swap: Swap


@dataclass(frozen=True)
class Settled:
    """The new version runs under the names of the old one; `fault`: why it does not, and the candidates go on."""

    generation: int
    swap: Swap
    fault: str | None = None


@dataclass(frozen=True)
class RolledOut:
    """The candidates have gone: the exchange is over."""

    generation: int


@dataclass(frozen=True)
class RolloutRefused:
    """The new version is not in service, and the old one is as before."""

    generation: int
    entry: str
    reason: str


@dataclass(frozen=True)
class Scraped:
    """Triton's metrics; None when it did not give them."""

    generation: int
    progress: Mapping[str, ModelProgress] | None
    cold_start: Mapping[tuple[str, str], float]
    asked_at: float  # time.monotonic()


@dataclass(frozen=True)
class WorkerFailed:
    """A worker thread met something it does not handle: a bug of ours."""

    error: BaseException


RolloutEvent: TypeAlias = Proved | SwitchedOver | Settled | RolledOut | RolloutRefused
ServerEvent: TypeAlias = (
    ServerLive | ModelReached | BroughtUp | BringUpFailed | Unloaded | Repaired | RepairFailed | Scraped | RolloutEvent
)
Event: TypeAlias = StopRequested | WorkerFailed | ServerEvent
