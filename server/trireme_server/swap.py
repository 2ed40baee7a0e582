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

from trireme_server.loading import Loader, LoadFailed
from trireme_server.next_version import NextVersion
from trireme_server.repository import Entry, Model
from trireme_server.shown_models import hide, show, show_version
from trireme_server.status import ModelPhase
from trireme_server.triton_api import TritonRefused, TritonUnreachable

CANDIDATE = ".next"  # no entry has a name with a full stop
_GRACE_S = 1.0  # until a request that was let in before a switch has taken hold of its steps
HasGone = Callable[[float], bool]  # waits so many seconds, less if the server goes, and says whether it has


def own_name(model: str) -> str:
    """The name of a model that may be a candidate."""
    return model.removesuffix(CANDIDATE)


@dataclass(frozen=True)
class Swap:
    """One exchange. The methods are called in their order; each may raise LoadFailed or OSError, but `clear`."""

    loader: Loader  # of the version in service
    new: NextVersion
    shown: Path  # the model repository as the server is shown it

    @property
    def name(self) -> str:
        return self.new.entry.name

    @property
    def models(self) -> list[str]:
        return [model.name for model in self.new.entry.models]

    @property
    def steps(self) -> list[str]:
        return [step.name for step in self.new.entry.steps]

    @property
    def candidates(self) -> list[str]:
        """The names under which the steps run until they can take their own."""
        return [step + CANDIDATE for step in self.steps]

    def prove(self) -> None:
        """Loads the candidates, and has them answer the golden samples. Nobody else knows their names."""
        candidates = {model.name: model.name + CANDIDATE for model in self.new.entry.models}
        self._aside.mkdir(exist_ok=True)
        for model in self.new.entry.models:
            show(self._aside, model, self.new.configs[model.name], model.name)  # now, while a full disk refuses it
            show(self.shown, model, self.new.configs[model.name].renamed(candidates), candidates[model.name])
        self._bring_up(candidates)

    def switch(self) -> None:
        """From the end of this call on every new request is answered by the new version."""
        if missing := [model.name for model in self.new.entry.models if model.version_folder is None]:
            raise LoadFailed(f"its files were removed meanwhile: {', '.join(missing)}")
        show_version(self.shown, self.new.entry.model)
        self._load_public({step.name: step.name + CANDIDATE for step in self.new.entry.steps})

    def settle(self, has_gone: HasGone) -> None:
        """Puts the new version under the steps' own names, and proves that too."""
        if has_gone(_GRACE_S):
            return
        for step in self.new.entry.steps:
            self._unload(step.name)
        self.show_own()
        self._bring_up({self.name: self.name + CANDIDATE})
        self._load_public({})

    def let_go(self, has_gone: HasGone) -> None:
        """Unloads the candidates, to which no new requests come any more."""
        if not has_gone(_GRACE_S):
            self.clear()

    def clear(self) -> None:
        """Unloads the candidates, what there is of them."""
        for model in reversed(self.new.entry.models):
            self._unload(model.name + CANDIDATE)
        self.hide_candidates()

    def hide_candidates(self) -> None:
        """Ends what is shown of them; of a server that has gone there is no more to do."""
        for model in self.new.entry.models:
            hide(self.shown, model.name + CANDIDATE)
            hide(self._aside, model.name)

    def show_own(self) -> None:
        """Shows the new version under its own names; does nothing the second time."""
        for model in self.new.entry.models:
            if (self._aside / model.name).is_dir():
                hide(self.shown, model.name)
                (self._aside / model.name).rename(self.shown / model.name)

    def why(self, error: Exception) -> str:
        """The text of an error, with the names that everybody knows."""
        text = str(error) or type(error).__name__
        for model in self.new.entry.models:
            text = text.replace(model.name + CANDIDATE, model.name)
        return text

    @property
    def _aside(self) -> Path:
        """What is to be shown later, on the same file system."""
        return self.shown.with_name("models-to-come")

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
