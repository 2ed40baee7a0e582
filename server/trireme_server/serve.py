"""The main path of `trireme serve`: look around, check, start, keep going, stop."""

from __future__ import annotations

import os
import queue
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from trireme_server import binding_checks, machine_checks, repository_checks, software_checks
from trireme_server.assembly import Preparation, assemble
from trireme_server.events import StopRequested
from trireme_server.exit_codes import ExitCode, ServeError
from trireme_server.find_server import Installation
from trireme_server.health_endpoint import HealthEndpoint
from trireme_server.parts import Inbox
from trireme_server.phases import Span
from trireme_server.preflight import Level, Surroundings, look_around, mebibytes, run_checks
from trireme_server.processes import Processes
from trireme_server.run_folder import assemble_backends, make_run_folder
from trireme_server.serve_config import ServeConfig
from trireme_server.shared_memory import region_prefix, remove, stale_regions
from trireme_server.status import Board, ModelPhase, Status
from trireme_server.supervisor import Supervisor
from trireme_server.terminal import Terminal
from trireme_server.triton_process import clear_away

CHECKS = (*software_checks.CHECKS, *machine_checks.CHECKS, *repository_checks.CHECKS, *binding_checks.CHECKS)
_GRACE_S = 3.0  # for tritonserver to end by itself when nothing runs any more
_OPEN_FILES = 65536


def serve(config: ServeConfig, terminal: Terminal) -> ExitCode:
    """Serves until a signal asks for the end.

    Raises:
        ServeError: it cannot start, or cannot go on.
    """
    entered = time.monotonic()
    itself = Processes().stat(os.getpid())
    assert itself is not None, "this process runs"
    imports = Span(entered - itself.age_s, entered)
    around = look_around(config)
    installation = _check(around, terminal)
    folder = make_run_folder(config.run_folder, config.http_port)
    try:
        assemble_backends(installation, config.backends, folder.backends)
        launcher = (("imports", imports), ("preflight", Span(entered, time.monotonic())))
        prepared = Preparation(
            around=around, installation=installation, folder=folder, terminal=terminal, launcher=launcher
        )
        return _serve_prepared(prepared)
    finally:
        folder.remove()


def _check(around: Surroundings, terminal: Terminal) -> Installation:
    """Runs the preflight, and removes what dead servers left in shared memory.

    Raises:
        ServeError: a check failed; each has been told to the terminal.
    """
    stale = stale_regions(around.processes)
    if stale:
        terminal.say(f"removed {len(stale)} shared-memory regions of dead servers: {mebibytes(remove(stale))}")
    findings = [each for each in run_checks(CHECKS, around) if each.level is not Level.OK]
    for finding in findings:
        terminal.finding(finding)
    failed = [finding.name for finding in findings if finding.level is Level.FAIL]
    if failed:
        raise ServeError(f"not started: {', '.join(failed)}; see above", ExitCode.PREFLIGHT_FAILED)
    assert around.installation is not None, "a check fails when there is none"
    return around.installation


def _serve_prepared(prepared: Preparation) -> ExitCode:
    config, board = prepared.around.config, Board()
    inbox: Inbox = queue.SimpleQueue()
    parts = assemble(prepared, board, inbox)
    names = ", ".join(entry.name for entry in prepared.around.entries)
    prepared.terminal.say(f"serving {names} on {prepared.around.machine.cores} cores; log: {prepared.folder.log}")
    _raise_file_limit()
    board.publish(Status(reason="the server is starting", models=dict.fromkeys(parts.fleet.models, ModelPhase.WAITING)))
    with _signals(inbox), _health(board, config):
        supervisor = Supervisor(parts)
        try:
            supervisor.run()
        except BaseException:
            _stop(supervisor, prepared, inbox)
            raise
        return _stop(supervisor, prepared, inbox)


def _stop(supervisor: Supervisor, prepared: Preparation, inbox: Inbox) -> ExitCode:
    """Ends the server, its stubs and their shared memory. A second signal hurries it."""
    limit_s = prepared.around.config.shutdown_timeout_s
    prepared.terminal.say(f"stopping; running requests have {limit_s:g} s")
    deadline = time.monotonic() + limit_s + _GRACE_S
    server, code, worked_at = supervisor.server, ExitCode.STOPPED, time.monotonic()
    server.terminate()
    while server.ended(within_s=0.1) is None:
        supervisor.end_idle()
        if supervisor.anyone_works:
            worked_at = time.monotonic()
        if _asked_again(inbox):
            code = ExitCode.HURRIED
        # a server that has lost a request to a dead stub never finds itself idle
        if code is ExitCode.HURRIED or time.monotonic() > min(deadline, worked_at + _GRACE_S):
            server.kill()
    clear_away(prepared.around.processes, region_prefix(os.getpid()))
    prepared.terminal.say("stopped")
    prepared.terminal.close()
    return code


def _asked_again(inbox: Inbox) -> bool:
    try:
        while True:
            if isinstance(inbox.get_nowait(), StopRequested):
                return True
    except queue.Empty:
        return False


@contextmanager
def _signals(inbox: Inbox) -> Iterator[None]:
    """While inside, signals that ask for the end arrive in the inbox."""

    def post(number: int, _frame: object) -> None:
        inbox.put(StopRequested(signal.Signals(number).name))

    before = {number: signal.signal(number, post) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _health(board: Board, config: ServeConfig) -> Iterator[None]:
    endpoint = HealthEndpoint(board, config.host, config.health_port)
    endpoint.start()
    try:
        yield
    finally:
        endpoint.close()


def _raise_file_limit() -> None:
    """Every client connection is an open file of tritonserver."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
