"""The supervisor's worker threads: bring a server up, load broken models again, read Triton's metrics.

They own nothing and change nothing; whatever they find out they post as an event.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from trireme_server import exposition
from trireme_server.connections import CannotBorrow, Connection
from trireme_server.events import (
    BringUpFailed,
    BroughtUp,
    Event,
    ModelReached,
    Proved,
    Repaired,
    RepairFailed,
    RolledOut,
    RolloutRefused,
    Scraped,
    ServerLive,
    Settled,
    SwitchedOver,
    Unloaded,
    WorkerFailed,
)
from trireme_server.exposition import Sample
from trireme_server.loading import Loader, LoadFailed
from trireme_server.mending import Repair
from trireme_server.next_version import NextVersion
from trireme_server.repository import Entry
from trireme_server.status import ModelPhase
from trireme_server.stub_watch import ModelProgress
from trireme_server.swap import Swap, own_name
from trireme_server.triton_api import TritonRefused, TritonUnreachable

Post = Callable[[Event], None]
ConnectionsSeen = Callable[[], Iterable[Connection]]  # may raise CannotBorrow

_LIVE_POLL_S = 0.02
_SCRAPE_S = 0.5
_DONE = frozenset(
    {
        "nv_inference_exec_count",
        "nv_inference_request_success",
        "nv_inference_request_failure",
        "trireme_progress_total",
    }
)


class Worker:
    """Starts the threads of one server's generation."""

    def __init__(self, loader: Loader, generation: int, post: Post) -> None:
        self._loader = loader
        self._generation = generation
        self._post = post
        self._retired = threading.Event()

    def retire(self) -> None:
        """The server has gone: ends the threads that go on for as long as it lives."""
        self._retired.set()

    def bring_up(self, entries: Collection[Entry]) -> None:
        """Waits until the server lives, then loads everything."""
        self._thread(self._bring_up, entries)

    def repair(self, repair: Repair, users: Collection[Entry], seen: ConnectionsSeen) -> None:
        """Loads the models again and has the entries that use them answer."""
        self._thread(self._repair, repair, users, seen)

    def prove(self, entry: str, read: Callable[[], NextVersion], shown: Path) -> None:
        """Loads the version of an entry that is on disk beside the one in service, and has it answer."""
        self._thread(self._prove, entry, read, shown)

    def switch(self, swap: Swap) -> None:
        """Has the proved version answer."""
        self._thread(self._switch, swap)

    def settle(self, swap: Swap) -> None:
        """Gives it the names of the one before."""
        self._thread(self._settle, swap)

    def let_go(self, swap: Swap) -> None:
        """Unloads the candidates, which nobody needs any more."""
        self._thread(self._let_go, swap)

    def adopt(self, loader: Loader) -> None:
        """What is loaded from now on is loaded by it."""
        self._loader = loader

    def scrape(self) -> None:
        """Reads Triton's metrics again and again."""
        self._thread(self._scrape)

    def _bring_up(self, entries: Collection[Entry]) -> None:
        while not self._loader.triton.is_live():
            if self._retired.wait(_LIVE_POLL_S):
                return
        self._post(ServerLive(self._generation, time.monotonic()))
        try:
            starts = self._loader.bring_up(entries, self._report)
        except LoadFailed as error:
            self._post(BringUpFailed(self._generation, _with_advice(error), error.may_pass))
        else:
            self._post(self._scraped())
            self._post(BroughtUp(self._generation, starts))

    def _repair(self, repair: Repair, users: Collection[Entry], seen: ConnectionsSeen) -> None:
        for model in repair.models:
            with suppress(TritonRefused, TritonUnreachable):
                self._loader.triton.unload(model)
        # whoever may wait for what is lost is connected by now; who connects later meets the next generation
        self._post(Unloaded(self._generation, repair, time.monotonic(), connections_seen(seen)))
        try:
            self._loader.bring_up(users, self._report, only=repair.models)
        except LoadFailed as error:
            self._post(RepairFailed(self._generation, repair, _with_advice(error)))
        else:
            self._post(Repaired(self._generation, repair))

    def _prove(self, entry: str, read: Callable[[], NextVersion], shown: Path) -> None:
        swap = None
        try:
            swap = Swap(self._loader, read(), shown)
            if not self._retired.is_set():  # else it would be loaded by the next server
                self._prove_twice(swap)
        except Exception as error:  # whatever it is that a version on disk brings about, the one in service goes on
            self._refuse(entry, swap, error)
        else:
            self._post(Proved(self._generation, swap))

    def _prove_twice(self, swap: Swap) -> None:
        """Once more if it was not the version that failed, but a process of it that was killed."""
        try:
            swap.prove()
        except LoadFailed as error:
            if not error.may_pass or self._retired.is_set():
                raise
            swap.clear()
            swap.prove()

    def _switch(self, swap: Swap) -> None:
        try:
            swap.switch()
        except (LoadFailed, OSError) as error:
            self._refuse(swap.name, swap, error)
        else:
            self._post(SwitchedOver(self._generation, swap))

    def _settle(self, swap: Swap) -> None:
        try:
            swap.settle(self._retired.wait)
        except (LoadFailed, OSError) as error:
            self._post(Settled(self._generation, swap, swap.why(error)))
        else:
            self._post(Settled(self._generation, swap))

    def _let_go(self, swap: Swap) -> None:
        swap.let_go(self._retired.wait)
        self._post(RolledOut(self._generation))

    def _refuse(self, entry: str, swap: Swap | None, error: Exception) -> None:
        if swap is not None:
            swap.clear()
        reason = swap.why(error) if swap is not None else str(error) or type(error).__name__
        self._post(RolloutRefused(self._generation, entry, reason))

    def _scrape(self) -> None:
        while not self._retired.wait(_SCRAPE_S):
            self._post(self._scraped())

    def _scraped(self) -> Scraped:
        asked_at = time.monotonic()
        try:
            samples = exposition.parse(self._loader.triton.metrics())
        except (TritonRefused, TritonUnreachable):
            return Scraped(self._generation, None, {}, asked_at)
        return Scraped(self._generation, progress_of(samples), cold_start_of(samples), asked_at)

    def _thread(self, target: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            try:
                target(*arguments)
            except BaseException as error:
                self._post(WorkerFailed(error))

        threading.Thread(target=run, daemon=True).start()

    def _report(self, model: str, phase: ModelPhase) -> None:
        self._post(ModelReached(self._generation, model, phase))


def progress_of(samples: Iterable[Sample]) -> dict[str, ModelProgress]:
    """What each model has got done, by Triton's counters and its backend's own."""
    progress: dict[str, ModelProgress] = {}
    for sample in samples:
        if "model" not in sample.labels:
            continue
        so_far = progress.get(sample.labels["model"], ModelProgress())
        progress[sample.labels["model"]] = ModelProgress(
            done=so_far.done + (sample.value if sample.name in _DONE else 0.0),
            in_flight=so_far.in_flight + (sample.value if sample.name == "trireme_inflight" else 0.0),
            within_s=sample.value if sample.name == "trireme_progress_within_seconds" else so_far.within_s,
        )
    return progress


def cold_start_of(samples: Iterable[Sample]) -> dict[tuple[str, str], float]:
    """What the stubs measured of their own start: (model, phase) -> seconds. Candidates are nobody's models."""
    return {
        (sample.labels["model"], sample.labels["phase"]): sample.value
        for sample in samples
        if sample.name == "trireme_cold_start_seconds" and own_name(sample.labels["model"]) == sample.labels["model"]
    }


def _with_advice(error: LoadFailed) -> str:
    """What is wrong, and what to do if it is the version."""
    return f"{error} -> {error.fix}" if error.fix else str(error)


def connections_seen(seen: ConnectionsSeen) -> tuple[Connection, ...] | None:
    """None: they cannot be seen here."""
    try:
        return tuple(seen())
    except CannotBorrow:
        return None
