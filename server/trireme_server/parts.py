"""What the supervisor works with."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from trireme_server.events import Event
from trireme_server.fleet import Fleet
from trireme_server.loading import Loader
from trireme_server.next_version import NextVersion
from trireme_server.phases import EntryStart, Span
from trireme_server.processes import Processes
from trireme_server.serve_config import ServeConfig
from trireme_server.status import Board
from trireme_server.stub_watch import StallLimits
from trireme_server.terminal import Terminal
from trireme_server.triton_log import TritonLog
from trireme_server.triton_process import TritonProcess

Inbox: TypeAlias = "queue.SimpleQueue[Event]"
_POLL_S = 0.25
ColdStart: TypeAlias = Mapping[tuple[str, str], float]  # (model, phase) -> seconds
Announce: TypeAlias = Callable[[Span, Mapping[str, EntryStart], ColdStart], ColdStart]


def arrived(inbox: Inbox) -> Iterator[Event]:
    """What is in the inbox; waits a quarter of a second at most if there is nothing."""
    try:
        yield inbox.get(timeout=_POLL_S)
        while True:
            yield inbox.get_nowait()
    except queue.Empty:
        return


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Given once, when the supervisor is made."""

    config: ServeConfig
    fleet: Fleet
    loader: Loader
    limits: Mapping[str, StallLimits]  # by model
    start_server: Callable[[], TritonProcess]
    log: TritonLog
    terminal: Terminal
    board: Board
    processes: Processes
    inbox: Inbox
    next_version: Callable[[str], NextVersion]  # of an entry, as it is in service on disk; raises VersionRefused
    shown: Path  # the model repository as the server is shown it
    announce: Announce  # told once, when everything is ready for the first time; gives the launcher's own phases
