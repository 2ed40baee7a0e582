"""The stubs under watch: who is new, who is in trouble, who was to go and has not."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from trireme_server.processes import Processes
from trireme_server.stub_watch import ModelProgress, StallLimits, StubWatch, Verdict
from trireme_server.stubs import Stub, StubProbe, StubSample, find_stubs

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


@dataclass
class _Draining:
    """Stubs that get no new requests, but may those that are still in a step before.

    Triton ends them when no request is left that may come to them; `patience_s` is for what it does not.
    """

    stubs: list[_Watched]
    patience_s: float
    worked_at: float  # when one of them was last seen to be in the middle of a request

    def overdue(self, now: float) -> list[Stub]:
        """Those that hang, or all if none has had anything to do for too long. Forgets those that have gone."""
        samples = [(each, sample) for each in self.stubs if (sample := each.probe.sample()) is not None]
        self.stubs = [each for each, _ in samples]
        if any(not sample.is_idle for _, sample in samples):
            self.worked_at = now
        if now - self.worked_at >= self.patience_s:
            return [each.stub for each in self.stubs]
        return [each.stub for each, sample in samples if each.watch.judge(sample, _own_progress(sample), now, now)]


def _own_progress(sample: StubSample) -> ModelProgress:
    """Triton counts for a name, which by now is another version's; that it waits tells that it gets on."""
    return ModelProgress(done=float(sample.thread_waits))


class Roster:
    """The stubs of one server. Times are those of the supervisor's clock."""

    def __init__(self, processes: Processes, limits: Mapping[str, StallLimits]) -> None:
        self._processes = processes
        self.limits = limits  # by model
        self._watched: dict[int, _Watched] = {}  # by pid
        self._retired: dict[int, _Retired] = {}  # by pid
        self._draining: list[_Draining] = []
        self.server_pid = 0

    def enlist(self, server_pid: int, models: Collection[str], now: float) -> list[Trouble]:
        """Watches the new stubs of `models`; a model without any is trouble."""
        self.server_pid = server_pid
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
        draining = (each.stub.pid for each in self._draining_stubs())
        if stub.pid not in {*self._watched, *self._retired, *draining}:
            watch = StubWatch(self.limits.get(stub.model, StallLimits()), now)
            self._watched[stub.pid] = _Watched(stub, StubProbe(self._processes, stub), watch)

    def _heir(self, gone: Stub) -> Stub | None:
        """The stub that runs the same instance now: Triton loaded the model again, and the old one took time to end."""
        if gone.instance is None:
            return None
        leaving = {gone.pid, *self._retired, *(each.stub.pid for each in self._draining_stubs())}
        others = (stub for stub in find_stubs(self._processes, self.server_pid) if stub.pid not in leaving)
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

    def drain(self, models: Collection[str], now: float, patience_s: float) -> None:
        """Ends the watch over the stubs of `models`, which another version has taken the place of.

        Requests that were let in before may still come to them; they go when none of them has worked for `patience_s`.
        """
        stubs = [each for each in self._watched.values() if each.stub.model in models]
        for each in stubs:
            del self._watched[each.stub.pid]
        self._draining.append(_Draining(stubs, patience_s, worked_at=now))

    def kill(self, stub: Stub) -> None:
        """Ends the stub at once, if it is still there."""
        if self._processes.is_same(stub.pid, stub.start_ticks):
            with contextlib.suppress(ProcessLookupError):
                os.kill(stub.pid, signal.SIGKILL)

    def kill_overdue(self, now: float) -> None:
        """Kills the stubs that are due to go, and forgets those that have gone."""
        for drain in self._draining:
            for stub in drain.overdue(now):
                self.kill(stub)
        self._draining = [drain for drain in self._draining if drain.stubs]
        for pid, each in list(self._retired.items()):
            if not self._processes.is_same(pid, each.stub.start_ticks):
                del self._retired[pid]
                continue
            each.note_work(now)
            if each.is_due(now):
                self.kill(each.stub)

    @property
    def anyone_left(self) -> bool:
        """Whether any stub is alive, also one of a version that is just being put in service."""
        known = [each.stub for each in (*self._watched.values(), *self._draining_stubs())]
        retired = [each.stub for each in self._retired.values()]
        return self.any_alive([*known, *retired]) or bool(find_stubs(self._processes, self.server_pid))

    def _draining_stubs(self) -> Iterable[_Watched]:
        return (each for drain in self._draining for each in drain.stubs)

    def any_alive(self, stubs: Iterable[Stub]) -> bool:
        return any(self._processes.is_same(stub.pid, stub.start_ticks) for stub in stubs)
