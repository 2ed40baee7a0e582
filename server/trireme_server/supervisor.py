"""Keeps the models answering: notices what dies or stalls, replaces it, and tells the truth meanwhile.

Everything here runs on one thread, which owns the state; worker threads (`work`) report by events. It must be the
main thread, with which tritonserver's life is tied to the launcher's (`die_with_parent`).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from trireme_server import events
from trireme_server.connections import CannotBorrow, Connection, open_connections
from trireme_server.exit_codes import ExitCode, ServeError
from trireme_server.hang_watch import HangWatch
from trireme_server.lost_requests import LostRequests
from trireme_server.mending import Mending, Repair
from trireme_server.parts import ColdStart, Parts, arrived
from trireme_server.patient_clock import PatientClock
from trireme_server.phases import EntryStart, Span
from trireme_server.restart_policy import CrashBudget
from trireme_server.rollout import Outcome, Rollout
from trireme_server.roster import Roster, Trouble
from trireme_server.shared_memory import region_prefix
from trireme_server.status import Counters, ModelPhase, State, Status, state_of
from trireme_server.stub_watch import ModelProgress, Verdict
from trireme_server.stubs import Stub
from trireme_server.swap import own_name
from trireme_server.triton_process import TritonProcess, clear_away
from trireme_server.work import Worker, connections_seen


class Supervisor:
    """Runs one tritonserver after the other until it is asked to stop."""

    def __init__(self, parts: Parts) -> None:
        self._clock = PatientClock()
        self._now = self._clock.look()
        self._generation = 0
        self._crashes = CrashBudget(parts.config.max_restarts)
        self._mending = Mending(parts.fleet.group_of, parts.config.max_restarts)
        self._rollout = Rollout(parts, self._mending)
        self._launcher_phases: ColdStart = {}
        self._was_ready = False
        self._stop_asked = False
        self._reloads: Counter[tuple[str, str]] = Counter()
        self._restarts = 0
        self._connections_closed = 0
        self._start()

    def _start(self) -> None:
        """A new tritonserver, with nothing known about it yet."""
        parts = self._parts
        self._generation += 1
        self._restart_at: float | None = None
        self._is_up = False
        self._reason = "the models are being loaded"
        self._phases = dict.fromkeys(parts.fleet.models, ModelPhase.WAITING)
        self._progress: Mapping[str, ModelProgress] = {}
        self._cold_start: ColdStart = {}
        self._roster = Roster(parts.processes, parts.limits)
        self._lost = LostRequests(parts.processes, parts.config.grpc_port)
        self._retired: dict[str, list[Stub]] = {}  # of broken models that have not been unloaded yet
        self._hang_watch = HangWatch(parts.processes, parts.loader.triton)
        self._scraped_at = self._seen_at = self._now
        self._worker = Worker(parts.loader, self._generation, parts.inbox.put)
        self._started_at = time.monotonic()
        self._server = parts.start_server()
        self._worker.bring_up(parts.fleet.entries)

    def run(self) -> None:
        """Returns when a signal asked for the end.

        Raises:
            ServeError: it cannot go on.
        """
        while not self._stop_asked:
            for event in arrived(self._parts.inbox):
                self._handle(event)
            self._now = self._clock.look()
            self._look()
            self._publish()

    def _handle(self, event: events.Event) -> None:
        if isinstance(event, events.StopRequested):
            self._stop_asked = True
        elif isinstance(event, events.WorkerFailed):
            raise event.error
        elif event.generation == self._generation and self._restart_at is None:
            self._handle_current(event)

    def _handle_current(self, event: events.ServerEvent) -> None:
        match event:
            case events.ServerLive(at=at):
                self._live_at = at
            case events.ModelReached(model=model, phase=phase):
                self._phases[model] = phase
            case events.Scraped():
                self._note_metrics(event)
            case events.BroughtUp(entries=entries):
                self._brought_up(entries)
            case events.BringUpFailed(reason=reason, may_pass=may_pass):
                self._bring_up_failed(reason, may_pass)
            case events.Unloaded(repair=repair, connections=connections, at=at):
                self._unloaded(repair.models, connections, at)
            case events.Repaired(repair=repair):
                self._repaired(repair)
            case events.RepairFailed(repair=repair, reason=reason):
                self._repair_failed(repair, reason)
            case _:
                self._exchanged(self._rollout.handle(event, self._worker, self._roster, self._now))

    def _look(self) -> None:
        """What no event tells: the processes, and what has become due."""
        for error in self._parts.log.new_errors():
            self._parts.terminal.say(f"triton: {error}", "warning")
        if self._restart_at is not None:
            if self._now >= self._restart_at:
                self._start()
        elif (how := self._server.ended() or self._server_hangs()) is not None:
            self._server_died(how)
        elif self._is_up:
            self._in_trouble(self._roster.judge(self._progress, self._seen_at, self._now))
            self._rollout.start_due(self._worker, self._now)
            self._start_repairs()
            self._roster.kill_overdue(self._now)
            self._close_lost()

    @property
    def _parts(self) -> Parts:
        return self._rollout.parts

    @property
    def server(self) -> TritonProcess:
        """The running tritonserver, or the last one that ran."""
        return self._server

    def end_idle(self) -> None:
        """Ends the stubs of old generations that are due to go."""
        self._roster.kill_overdue(self._clock.look())

    @property
    def anyone_works(self) -> bool:
        """Whether a request can still be running: in a stub, or in a model that needs none."""
        return self._roster.anyone_left or self._parts.fleet.computes_without_stubs

    # -- the server ----------------------------------------------------------------------------------------------

    def _server_hangs(self) -> str | None:
        """Ends a server that makes no progress; says why it did."""
        how = self._hang_watch.judge(self._server.pid, self._now, self._scraped_at if self._is_up else self._now)
        if how is not None:
            self._server.kill()
        return how

    def _server_died(self, how: str) -> None:
        reason = f"tritonserver ended: {how}"
        if not self._was_ready and not self._server.has_crashed:
            raise ServeError(f"{self._parts.log.tail()}\n{reason}", ExitCode.SERVER_FAILED)
        self._start_again(reason)

    def _start_again(self, reason: str) -> None:
        """The server has gone; another one follows after a pause, unless there have been too many."""
        self._worker.retire()
        clear_away(self._parts.processes, region_prefix(os.getpid()))
        self._mending.forget()
        self._rollout.interrupted()
        self._phases = dict.fromkeys(self._phases, ModelPhase.WAITING)
        self._reason = reason
        pause = self._crashes.crashed(self._now)
        if pause is None:
            raise ServeError(f"crash loop, given up: {self._reason}", ExitCode.CRASH_LOOP)
        self._restarts += 1
        self._restart_at = self._now + pause
        self._parts.terminal.say(f"{self._reason}; starting it again", "error")

    def _brought_up(self, entries: Mapping[str, EntryStart]) -> None:
        self._is_up = True
        self._crashes.recovered(self._now)
        self._scraped_at = self._now
        self._worker.scrape()
        if self._was_ready:
            self._parts.terminal.say("every model answers again")
        else:
            self._was_ready = True
            self._launcher_phases = self._parts.announce(
                Span(self._started_at, self._live_at), entries, self._cold_start
            )
        self._in_trouble(self._roster.enlist(self._server.pid, self._parts.fleet.with_stubs, self._now))

    def _bring_up_failed(self, reason: str, may_pass: bool) -> None:
        if (how := self._server.ended(within_s=0.5)) is not None:
            self._server_died(how)
        elif self._was_ready or may_pass:
            self._server.kill()
            self._start_again(reason)
        else:
            raise ServeError(reason, ExitCode.MODEL_FAILED)

    def _note_metrics(self, scraped: events.Scraped) -> None:
        if scraped.progress is not None:
            self._scraped_at = self._now
            self._seen_at = self._now - (time.monotonic() - scraped.asked_at)
            self._progress = scraped.progress
            self._cold_start = scraped.cold_start

    # -- the models ----------------------------------------------------------------------------------------------

    def _in_trouble(self, troubles: Sequence[Trouble]) -> None:
        for trouble in troubles:
            if trouble.stub is not None:
                self._roster.kill(trouble.stub)
        first = {own_name(each.model): each for each in reversed(troubles)}
        for model in sorted(first.keys() - self._mending.broken):
            self._retired.setdefault(model, []).extend(self._retire(first[model].model))
            self._break({model}, first[model].verdict)

    def _break(self, models: Collection[str], verdict: Verdict) -> None:
        """Models of one entry have to be loaded again, for one reason."""
        self._phases |= dict.fromkeys(models, ModelPhase.DEAD)
        self._reloads.update((model, verdict.kind) for model in models)
        self._reason = f"{', '.join(sorted(models))}: {verdict.text}"
        self._parts.terminal.say(f"{self._reason}; loading it again", "error")
        if not self._mending.breaks(models, self._now):
            raise ServeError(f"crash loop, given up: {self._reason}", ExitCode.CRASH_LOOP)

    def _retire(self, model: str) -> list[Stub]:
        deadline = self._now + self._parts.config.shutdown_timeout_s
        answers_in_execute = own_name(model) not in self._parts.fleet.decoupled
        return self._roster.retire(model, self._now, deadline, ends_when_idle=answers_in_execute)

    def _start_repairs(self) -> None:
        for repair in self._mending.start_due(self._now):
            self._worker.repair(repair, self._parts.fleet.users(repair.models), self._connections)

    def _connections(self) -> Iterable[Connection]:
        ports = {self._parts.config.http_port, self._parts.config.grpc_port}
        return open_connections(self._parts.processes, self._server.pid, ports)

    def _unloaded(self, models: Collection[str], connections: Sequence[Connection] | None, at: float) -> None:
        stubs = [stub for model in models for stub in self._retired.pop(model, [])]
        # a request that waits is answered by any stub of its model; a stream only by the one that began it
        can_answer = [stub for stub in stubs if own_name(stub.model) not in self._parts.fleet.decoupled]
        still_answered = partial(self._roster.any_alive, can_answer)
        self._lost.expect([stub.region for stub in stubs], connections, at, still_answered)

    def _repaired(self, repair: Repair) -> None:
        seconds = self._mending.mended(repair, self._now)
        self._parts.terminal.say(f"{', '.join(sorted(repair.models))}: answers again after {seconds:.1f} s")
        self._rollout.repaired(self._worker, self._roster, self._now)
        self._in_trouble(self._roster.enlist(self._server.pid, repair.models & self._parts.fleet.with_stubs, self._now))

    def _repair_failed(self, repair: Repair, reason: str) -> None:
        self._parts.terminal.say(reason, "error")
        self._phases |= dict.fromkeys(repair.models, ModelPhase.DEAD)
        self._reason = reason
        if not self._mending.failed(repair, self._now):
            raise ServeError(f"crash loop, given up: {reason}", ExitCode.CRASH_LOOP)

    def _close_lost(self) -> None:
        try:
            closed = self._lost.close_due(self._server.pid, time.monotonic())
        except CannotBorrow as error:
            self._server.kill()
            self._start_again(f"streams of a dead model can only be ended with the server here ({error})")
            return
        if closed:
            self._connections_closed += closed
            self._parts.terminal.say(f"closed {closed} connections that waited for a dead model", "warning")

    def _exchanged(self, outcome: Outcome) -> None:
        self._phases |= dict.fromkeys(outcome.ready, ModelPhase.READY)
        if any(self._retired.get(name) for name in outcome.unloaded):
            self._unloaded(outcome.unloaded, connections_seen(self._connections), time.monotonic())
        if outcome.fault is not None:
            self._break(outcome.broken, Verdict("gone", outcome.fault))
        self._in_trouble(outcome.troubles)

    # -- the truth -----------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        has_server = self._is_up and self._restart_at is None
        state = state_of(self._stop_asked, has_server, self._was_ready, bool(self._mending.broken))
        phases = dict(self._phases)
        self._parts.terminal.phases(phases)
        status = Status(
            state=state,
            reason="" if state in (State.READY, State.STOPPING) else self._reason,
            models=phases,
            entries=self._parts.fleet.ready_entries(phases),
            server_pid=None if self._restart_at is not None else self._server.pid,
            versions=dict(self._rollout.versions),
            refused=dict(self._rollout.refused),
            counters=Counters(self._restarts, dict(self._reloads), self._connections_closed),
            cold_start={**self._cold_start, **self._launcher_phases},
        )
        self._parts.board.publish(status)
