"""Exchanges the version of an entry on a running server, without losing a request.

The new version is loaded beside the old one, under names of its own, and must answer its golden samples there. Then the
public ensemble is loaded again over the new steps: this is the moment of the switch. Triton 2.51 keeps the ensemble it
had until the new one is there, and a request that runs keeps the steps it began with, also after they are unloaded.
When nobody comes to the old steps any more, the new ones take their names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trireme_server.loading import Loader
from trireme_server.next_version import NextVersion
from trireme_server.repository import Entry, Model
from trireme_server.shown_models import hide, show, show_version
from trireme_server.status import ModelPhase
from trireme_server.triton_api import TritonRefused, TritonUnreachable

_CANDIDATE = ".next"  # no entry has a name with a full stop
_GRACE_S = 1.0  # until a request that was let in before a switch has taken hold of its steps


@dataclass(frozen=True)
class Swap:
    """One exchange. The methods are called in their order; each but `clear` raises LoadFailed."""

    loader: Loader  # of the version in service
    new: NextVersion
    shown: Path  # the model repository as the server is shown it

    def prove(self) -> None:
        """Loads the candidates, and has them answer the golden samples. Nobody else knows their names."""
        candidates = {model.name: model.name + _CANDIDATE for model in self.new.entry.models}
        self._show(candidates)
        self._bring_up(candidates)

    def switch(self) -> None:
        """From the end of this call on every new request is answered by the new version."""
        show_version(self.shown, self.new.entry.model)
        self._load_public({step.name: step.name + _CANDIDATE for step in self.new.entry.steps})

    def settle(self, has_gone: Callable[[float], bool]) -> None:
        """Puts the new version under the steps' own names, proves that too, and lets the candidates go.

        Args:
            has_gone: waits so many seconds, less if the server goes, and says whether it has.
        """
        if has_gone(_GRACE_S):
            return
        for step in self.new.entry.steps:
            self._unload(step.name)
        self._show({})
        self._bring_up({self.new.entry.name: self.new.entry.name + _CANDIDATE})
        self._load_public({})
        has_gone(_GRACE_S)
        self.clear()

    def clear(self) -> None:
        """Unloads the candidates, what there is of them."""
        for model in reversed(self.new.entry.models):
            self._unload(model.name + _CANDIDATE)
            hide(self.shown, model.name + _CANDIDATE)

    def _show(self, names: Mapping[str, str]) -> None:
        for model in self.new.entry.models:
            show(self.shown, model, self.new.configs[model.name].renamed(names), names.get(model.name, model.name))

    def _bring_up(self, names: Mapping[str, str]) -> None:
        """Loads every model under the name that `names` gives it, or its own, and has the ensemble answer."""
        models = {name: names.get(name, name) for name in self.new.configs}
        loader = dataclasses.replace(
            self.loader,
            overrides={models[name]: config.renamed(names).to_json() for name, config in self.new.configs.items()},
            manifests={models[self.new.entry.name]: self.new.manifest},
        )
        loader.bring_up([self._renamed(names)], _report_nothing)

    def _load_public(self, names: Mapping[str, str]) -> None:
        config = self.new.configs[self.new.entry.name].renamed(names)
        self.loader.load(self.new.entry.name, config.to_json())

    def _renamed(self, names: Mapping[str, str]) -> Entry:
        models = [Model(names.get(each.name, each.name), each.folder, each.config) for each in self.new.entry.models]
        return Entry(models[-1], tuple(models[:-1]))

    def _unload(self, model: str) -> None:
        with suppress(TritonRefused, TritonUnreachable):
            self.loader.triton.unload(model)


def _report_nothing(_model: str, _phase: ModelPhase) -> None:
    """The entry stays ready: what is being loaded is not what answers."""
