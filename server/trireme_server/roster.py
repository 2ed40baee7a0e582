"""The stubs under watch: who is new, who is in trouble, who was to go and has not."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from trireme_server.processes import Processes
from trireme_server.stub_watch import ModelProgress, StallLimits, StubWatch, Verdict
from trireme_server.stubs import Stub, StubProbe, find_stubs

_IDLE_S = 2.0  # a retired stub is idle for so long only if nothing waits for it


@dataclass(frozen=True)
class Trouble:
    """A stub that must be replaced, or a model that has none."""

    model: str
    verdict: Verdict
    stub: Stub | None = None  # None: there is none


@dataclass
class _Watched:
    stub: Stub
    probe: StubProbe
    watch: StubWatch


@dataclass
class _Retired:
    """A stub of an old generation, which Triton may keep although it has nothing to do any more."""

    stub: Stub
    probe: StubProbe
    deadline: float
    ends_when_idle: bool
    worked_at: float  # when it was last seen to be in the middle of a request

    def note_work(self, now: float) -> None:
        """Looks whether it is in the middle of a request."""
        sample = self.probe.sample()
        if sample is not None and not sample.is_idle:
            self.worked_at = now

    def is_due(self, now: float) -> bool:
        """Whether it has had its time, or has nothing left to do."""
        return now >= self.deadline or (self.ends_when_idle and now - self.worked_at >= _IDLE_S)


class Roster:
    """The stubs of one server. Times are those of the supervisor's clock."""

    def __init__(self, processes: Processes, limits: Mapping[str, StallLimits]) -> None:
        self._processes = processes
        self._limits = limits  # by model
        self._watched: dict[int, _Watched] = {}  # by pid
        self._retired: dict[int, _Retired] = {}  # by pid
        self._server_pid = 0

    def enlist(self, server_pid: int, models: Collection[str], now: float) -> list[Trouble]:
        """Watches the new stubs of `models`; a model without any is trouble."""
        self._server_pid = server_pid
        for stub in find_stubs(self._processes, server_pid):
            if stub.model in models:
                self._enlist(stub, now)
        present = {each.stub.model for each in self._watched.values()}
        return [Trouble(model, Verdict("gone", "it has no process")) for model in models if model not in present]

    def judge(self, progress: Mapping[str, ModelProgress], seen_at: float, now: float) -> list[Trouble]:
        """The watched stubs that are in trouble now. `progress` was asked for at `seen_at`."""
        found = []
        for each in list(self._watched.values()):
            model = each.stub.model
            verdict = each.watch.judge(each.probe.sample(), progress.get(model, ModelProgress()), seen_at, now)
            if verdict is not None and verdict.kind == "gone" and (heir := self._heir(each.stub)):
                del self._watched[each.stub.pid]
                self._enlist(heir, now)
            elif verdict is not None:
                found.append(Trouble(model, verdict, each.stub))
        return found

    def _enlist(self, stub: Stub, now: float) -> None:
        if stub.pid not in self._watched and stub.pid not in self._retired:
            watch = StubWatch(self._limits.get(stub.model, StallLimits()), now)
            self._watched[stub.pid] = _Watched(stub, StubProbe(self._processes, stub), watch)

    def _heir(self, gone: Stub) -> Stub | None:
        """The stub that runs the same instance now: Triton loaded the model again, and the old one took time to end."""
        if gone.instance is None:
            return None
        others = (stub for stub in find_stubs(self._processes, self._server_pid) if stub.pid != gone.pid)
        return next((stub for stub in others if stub.instance == gone.instance), None)

    def retire(self, model: str, now: float, deadline: float, *, ends_when_idle: bool) -> list[Stub]:
        """Ends the watch over the stubs of `model`, and returns them.

        They get no new requests once the model is unloaded, and may end those they have until `deadline`.

        Args:
            ends_when_idle: whether a stub whose main thread has nothing to do has no request left.
        """
        retired = [each for each in self._watched.values() if each.stub.model == model]
        for each in retired:
            del self._watched[each.stub.pid]
            self._retired[each.stub.pid] = _Retired(each.stub, each.probe, deadline, ends_when_idle, worked_at=now)
        return [each.stub for each in retired]

    def kill(self, stub: Stub) -> None:
        """Ends the stub at once, if it is still there."""
        if self._processes.is_same(stub.pid, stub.start_ticks):
            with contextlib.suppress(ProcessLookupError):
                os.kill(stub.pid, signal.SIGKILL)

    def kill_overdue(self, now: float) -> None:
        """Kills the retired stubs that are due, and forgets those that have gone."""
        for pid, each in list(self._retired.items()):
            if not self._processes.is_same(pid, each.stub.start_ticks):
                del self._retired[pid]
                continue
            each.note_work(now)
            if each.is_due(now):
                self.kill(each.stub)

    @property
    def anyone_left(self) -> bool:
        """Whether any stub, watched or retired, is alive."""
        return self.any_alive([*(each.stub for each in self._watched.values()), *self.retired])

    @property
    def retired(self) -> list[Stub]:
        """Stubs of old generations that have not been seen to go."""
        return [each.stub for each in self._retired.values()]

    def any_alive(self, stubs: Iterable[Stub]) -> bool:
        return any(self._processes.is_same(stub.pid, stub.start_ticks) for stub in stubs)
