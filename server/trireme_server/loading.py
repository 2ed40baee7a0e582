"""Loads models side by side, each after those it needs, and has every entry answer its golden samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from trireme_server.golden import AskStream, WrongAnswer, replay
from trireme_server.manifest import GoldenSample
from trireme_server.phases import EntryStart, Span
from trireme_server.repository import Entry, Model
from trireme_server.status import ModelPhase
from trireme_server.triton_api import TritonApi, TritonRefused, TritonUnreachable

Report = Callable[[str, ModelPhase], None]  # model, phase


class LoadFailed(Exception):
    """A model could not be brought to answer. The text holds Triton's own reason."""


@dataclass(frozen=True)
class Loader:
    """What is needed to bring entries up on a running server."""

    triton: TritonApi
    overrides: Mapping[str, str | None]  # model -> config to load it with, as JSON; None: its config.pbtxt
    golden: Mapping[str, tuple[GoldenSample, ...]]  # by entry
    ask_stream: AskStream

    def bring_up(
        self, entries: Collection[Entry], report: Report, only: Collection[str] | None = None
    ) -> dict[str, EntryStart]:
        """Loads the entries' models (of the steps, those in `only`) and returns when all entries have answered.

        Raises:
            LoadFailed: the first failure in the order of `entries`; the other entries have been brought up.
        """
        steps = {model.name: model for entry in entries for model in _leaves(entry)}
        wanted = [model for name, model in steps.items() if only is None or name in only]
        with ThreadPoolExecutor(max_workers=len(wanted) + len(entries)) as pool:
            loads = {model.name: pool.submit(self._load, model, report) for model in wanted}
            starts = {entry.name: pool.submit(self._start, entry, loads, report) for entry in entries}
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

    def _load(self, model: Model, report: Report) -> Span:
        report(model.name, ModelPhase.LOADING)
        begin = time.monotonic()
        try:
            self.triton.load(model.name, self.overrides.get(model.name))
        except (TritonRefused, TritonUnreachable) as error:
            raise LoadFailed(f"model {model.name!r} did not load: {error}") from error
        span = Span(begin, time.monotonic())
        report(model.name, ModelPhase.LOADED)
        return span

    def _answer(self, entry: Entry) -> None:
        try:
            for sample in self.golden.get(entry.name, ()):
                replay(self.triton, entry.name, sample, self.ask_stream if entry.is_decoupled else None)
        except WrongAnswer as error:
            raise LoadFailed(f"wrong answer to a golden sample: {error}") from error
        except (TritonRefused, TritonUnreachable) as error:
            raise LoadFailed(f"model {entry.name!r} did not answer its golden sample: {error}") from error


def _leaves(entry: Entry) -> Iterable[Model]:
    """The models that run something: the steps, or the entry itself when it has none."""
    return entry.steps or (entry.model,)
