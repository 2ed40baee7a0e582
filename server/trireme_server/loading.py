"""Loads models side by side, each after those it needs, and has every entry answer its golden samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from trireme_server.export_advice import export_anew, roll_back
from trireme_server.golden import Ask, WrongAnswer, replay
from trireme_server.golden_http import ask_http
from trireme_server.manifest import Manifest
from trireme_server.phases import EntryStart, Span
from trireme_server.repository import Entry, Model
from trireme_server.status import ModelPhase
from trireme_server.triton_api import TritonApi, TritonRefused, TritonUnreachable

Report = Callable[[str, ModelPhase], None]  # model, phase


# Triton's words when a stub has died, or was not given the CPU for a second. The request is lost then, and with a
# stub that comes back Triton 2.51 gets out of step and crashes: it must not be used again.
_UNHEALTHY = "is not healthy"


class LoadFailed(Exception):
    """A model could not be brought to answer. The text holds Triton's own reason."""

    def __init__(self, text: str, fix: str = "") -> None:
        super().__init__(text)
        self.fix = fix  # the commands that bring a right version, if it is the version that is wrong

    @property
    def may_pass(self) -> bool:
        """Whether another attempt, with new stubs, may succeed."""
        return _UNHEALTHY in str(self)


@dataclass(frozen=True)
class Loader:
    """What is needed to bring entries up on a running server."""

    triton: TritonApi
    overrides: Mapping[str, str | None]  # model -> config to load it with, as JSON; None: its config.pbtxt
    manifests: Mapping[str, Manifest]  # by entry; one without is not asked
    ask_stream: Ask  # for entries that HTTP /infer does not serve
    parallel_loads: int  # Triton gives up on a stub that does not get going within ten seconds

    def bring_up(
        self, entries: Collection[Entry], report: Report, only: Collection[str] | None = None
    ) -> dict[str, EntryStart]:
        """Loads the entries' models (of the steps, those in `only`) and returns when all entries have answered.

        Raises:
            LoadFailed: the first failure in the order of `entries`; the other entries have been brought up.
        """
        steps = {model.name: model for entry in entries for model in _leaves(entry)}
        wanted = [model for name, model in steps.items() if only is None or name in only]
        wanted.sort(key=lambda model: model.size, reverse=True)  # what takes longest begins first
        with ThreadPoolExecutor(self.parallel_loads) as loading, ThreadPoolExecutor(len(entries)) as starting:
            loads = {model.name: loading.submit(self._load, model, report) for model in wanted}
            starts = {entry.name: starting.submit(self._start, entry, loads, report) for entry in entries}
        return {name: start.result() for name, start in starts.items()}

    def _start(self, entry: Entry, loads: Mapping[str, Future[Span]], report: Report) -> EntryStart:
        steps = {model.name: loads[model.name].result() for model in _leaves(entry) if model.name in loads}
        ensemble = self._load(entry.model, report) if entry.steps else None
        report(entry.name, ModelPhase.ANSWERING)
        begin = time.monotonic()
        self._answer(entry)
        answer = Span(begin, time.monotonic())
        for model in entry.models:
            report(model.name, ModelPhase.READY)
        return EntryStart(steps, ensemble, answer)

    def load(self, model: str, config: str | None) -> None:
        """Loads one model, with `config` as JSON; None: with its config.pbtxt.

        Raises:
            LoadFailed
        """
        try:
            self.triton.load(model, config)
        except (TritonRefused, TritonUnreachable) as error:
            raise LoadFailed(f"model {model!r} did not load: {error}") from error

    def _load(self, model: Model, report: Report) -> Span:
        report(model.name, ModelPhase.LOADING)
        begin = time.monotonic()
        self.load(model.name, self.overrides.get(model.name))
        span = Span(begin, time.monotonic())
        report(model.name, ModelPhase.LOADED)
        return span

    def _answer(self, entry: Entry) -> None:
        manifest = self.manifests.get(entry.name)
        if manifest is None:
            return
        ask = self.ask_stream if entry.is_decoupled else partial(ask_http, self.triton)
        try:
            for sample in manifest.golden:
                replay(ask, entry.name, sample)
        except WrongAnswer as error:
            raise LoadFailed(f"wrong answer to a golden sample: {error}", _fix(entry, manifest)) from error
        except TritonRefused as error:
            found = f"model {entry.name!r} did not answer its golden sample: {error}"
            raise LoadFailed(found, _fix(entry, manifest)) from error
        except TritonUnreachable as error:
            raise LoadFailed(f"model {entry.name!r} did not answer its golden sample: {error}") from error


def _fix(entry: Entry, manifest: Manifest) -> str:
    return export_anew(entry, manifest) + roll_back(entry)


def _leaves(entry: Entry) -> Iterable[Model]:
    """The models that run something: the steps, or the entry itself when it has none."""
    return entry.steps or (entry.model,)
