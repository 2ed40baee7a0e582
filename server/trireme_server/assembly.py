"""Puts together what the supervisor works with, from what the preflight found."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from trireme_server import binding_checks, repository_checks
from trireme_server.config_proto import ModelConfig
from trireme_server.exit_codes import ExitCode, ServeError
from trireme_server.find_server import Installation
from trireme_server.fleet import Fleet
from trireme_server.golden_grpc import ask_stream
from trireme_server.guide import guide
from trireme_server.loading import Loader
from trireme_server.next_version import NextVersion, VersionRefused
from trireme_server.overrides import STALL_TIMEOUT, override
from trireme_server.parts import ColdStart, Inbox, Parts
from trireme_server.phases import LAUNCHER, EntryStart, Span, StartReport, account
from trireme_server.preflight import Level, Surroundings, look_around, run_checks
from trireme_server.run_folder import RunFolder
from trireme_server.shown_models import show
from trireme_server.status import Board
from trireme_server.stub_watch import StallLimits
from trireme_server.terminal import Terminal
from trireme_server.triton_api import TritonApi
from trireme_server.triton_log import TritonLog
from trireme_server.triton_process import TritonProcess, command_line


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Everything that is known before tritonserver starts."""

    around: Surroundings
    installation: Installation
    folder: RunFolder
    terminal: Terminal
    launcher: tuple[tuple[str, Span], ...]  # the launcher's own phases so far

    @property
    def models(self) -> dict[str, ModelConfig]:
        return {model.name: model.config for entry in self.around.entries for model in entry.models}

    @property
    def with_stubs(self) -> frozenset[str]:
        """The models that run in stubs of the Python backend."""
        official = self.installation.has_official
        own = {name for name, each in self.models.items() if not each.is_ensemble and not official(each.backend)}
        return frozenset(own)


def assemble(prepared: Preparation, board: Board, inbox: Inbox) -> Parts:
    """The supervisor's parts."""
    config = prepared.around.config
    command = command_line(
        config,
        prepared.installation,
        prepared.folder,
        models=len(prepared.models),
        configs_complete=all(each.is_complete for each in prepared.models.values()),
    )
    configs = _configs(prepared)
    for model in (model for entry in prepared.around.entries for model in entry.models):
        show(prepared.folder.models, model, configs.get(model.name, model.config), model.name)
    environment = prepared.installation.environment(dict(os.environ), prepared.around.machine.cores)
    return Parts(
        config=config,
        fleet=Fleet(prepared.around.entries, prepared.with_stubs),
        loader=_loader(prepared, configs),
        limits=_all_limits(prepared),
        start_server=lambda: TritonProcess(command, environment, prepared.folder),
        log=TritonLog(prepared.folder.log),
        terminal=prepared.terminal,
        board=board,
        processes=prepared.around.processes,
        inbox=inbox,
        announce=partial(_announce, prepared),
        next_version=partial(next_version, prepared),
        shown=prepared.folder.models,
    )


def next_version(prepared: Preparation, entry: str) -> NextVersion:
    """The version of `entry` that is in service on disk now, checked as at a start.

    Raises:
        VersionRefused: the preflight has something against it.
    """
    around = look_around(dataclasses.replace(prepared.around.config, entries=(entry,)))
    found = run_checks((*repository_checks.CHECKS, *binding_checks.CHECKS), around)
    faults = [f"{each.found} -> {each.fix}" for each in found if each.level is Level.FAIL]
    if not faults and (entry not in around.manifests or not around.manifests[entry].golden):
        faults = ["there is no manifest with golden samples to say what is right"]
    if faults:
        raise VersionRefused("; ".join(faults))
    version = around.entries[0].model.version
    if version is None:
        raise VersionRefused("it was removed meanwhile")
    found_now = dataclasses.replace(prepared, around=around)
    try:
        limits = _all_limits(found_now)
    except ServeError as error:
        raise VersionRefused(str(error)) from error
    return NextVersion(
        entry=around.entries[0],
        version=version,
        configs=_configs(found_now),
        manifest=around.manifests[entry],
        limits=limits,
        with_stubs=found_now.with_stubs,
    )


def _configs(prepared: Preparation) -> dict[str, ModelConfig]:
    """What to load each model with; whatever is put in service on disk later, it stays at its version."""
    around, own = prepared.around, prepared.with_stubs
    configs = {}
    for entry in around.entries:
        for model in entry.models:
            changed = override(
                model.config, around.machine, is_official=model.name not in own, artifact_bytes=model.size
            )
            if model.version is not None and entry.name in around.manifests:
                changed = (changed or model.config).of_version(model.version)
            if changed is not None:
                configs[model.name] = changed
    return configs


def _loader(prepared: Preparation, configs: Mapping[str, ModelConfig]) -> Loader:
    config, machine = prepared.around.config, prepared.around.machine
    return Loader(
        triton=TritonApi(config.connect_host, config.http_port, config.metrics_port),
        overrides={name: each.to_json() for name, each in configs.items()},
        manifests=prepared.around.manifests,
        ask_stream=partial(ask_stream, f"{config.url_host}:{config.grpc_port}"),
        parallel_loads=machine.cores + 2,
    )


def _all_limits(prepared: Preparation) -> dict[str, StallLimits]:
    busy_s = prepared.around.config.stall_timeout_s
    return {name: _limits(name, each, busy_s) for name, each in prepared.models.items()}


def _limits(model: str, config: ModelConfig, busy_s: float) -> StallLimits:
    """The model's own limit, where its config has one, holds for every kind of stall."""
    if STALL_TIMEOUT not in config.parameters:
        return StallLimits(busy_s=busy_s)
    text = config.parameters[STALL_TIMEOUT]
    try:
        own = float(text)
    except ValueError:
        message = f"{model}: parameter {STALL_TIMEOUT!r} is {text!r}; it must be a number of seconds"
        raise ServeError(message, ExitCode.PREFLIGHT_FAILED) from None
    return StallLimits(blocked_s=own, promised_s=own, busy_s=own)


def _announce(
    prepared: Preparation, server: Span, entries: Mapping[str, EntryStart], cold_start: ColdStart
) -> ColdStart:
    """Prints the start's phases and how to use the server; gives the launcher's phases as metrics."""
    set_up = Span(prepared.launcher[-1][1].end, server.begin)  # with the attempts that failed, if there were any
    report = account(
        process_start=prepared.launcher[0][1].begin,
        launcher=[*prepared.launcher, ("set-up", set_up), ("server", server)],
        entries=entries,
        backend_phases=_by_model(cold_start),
    )
    prepared.terminal.started(report, guide(prepared.around.config, prepared.around.entries, prepared.around.manifests))
    return _metrics(report)


def _by_model(cold_start: ColdStart) -> dict[str, dict[str, float]]:
    phases: dict[str, dict[str, float]] = {}
    for (model, phase), seconds in cold_start.items():
        phases.setdefault(model, {})[phase] = seconds
    return phases


def _metrics(report: StartReport) -> ColdStart:
    """The lines of a report as (model, phase) -> seconds."""
    lines = {(line.subject, line.phase.replace(" ", "_")): line.seconds for line in report.lines}
    return {**lines, (LAUNCHER, "other"): report.other_s, (LAUNCHER, "total"): report.total_s}
