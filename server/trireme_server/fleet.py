"""The models that are served and which of them must be mended together. Knows no process and no server."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from trireme_server.repository import Entry
from trireme_server.status import ModelPhase

Group = frozenset[str]  # names of models


@dataclass(frozen=True)
class Fleet:
    """The entries that are served. Entries that share a step make up one group with all their models."""

    entries: tuple[Entry, ...]
    with_stubs: frozenset[str]  # the models that run in stubs of the Python backend

    @property
    def models(self) -> list[str]:
        """Every model once, steps before their ensembles."""
        return list(dict.fromkeys(model.name for entry in self.entries for model in entry.models))

    def group_of(self, model: str) -> Group:
        """The models that are connected with `model` through ensembles."""
        group = {model}
        while True:
            users = [entry for entry in self.entries if not group.isdisjoint(each.name for each in entry.models)]
            grown = group.union(*([each.name for each in entry.models] for entry in users))
            if grown == group:
                return frozenset(group)
            group = grown

    @property
    def decoupled(self) -> set[str]:
        """The models that may answer from threads of their own, after `execute`."""
        return {model.name for entry in self.entries for model in entry.models if model.config.is_decoupled}

    @property
    def computes_without_stubs(self) -> bool:
        """Whether a model, an official backend's, computes inside the server."""
        return any(
            not model.config.steps and model.name not in self.with_stubs
            for entry in self.entries
            for model in entry.models
        )

    def ready_entries(self, phases: Mapping[str, ModelPhase]) -> dict[str, bool]:
        """By entry: whether all its models are ready."""
        ready = {name for name, phase in phases.items() if phase is ModelPhase.READY}
        return {entry.name: all(model.name in ready for model in entry.models) for entry in self.entries}

    def users(self, models: Collection[str]) -> list[Entry]:
        """The entries that need any of `models`."""
        return [entry for entry in self.entries if any(each.name in models for each in entry.models)]
