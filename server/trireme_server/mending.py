"""Which models are broken, and when they are loaded again. Policy only: it loads nothing, and the time is given."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from trireme_server.fleet import Group
from trireme_server.restart_policy import CrashBudget


@dataclass(frozen=True)
class Repair:
    """Models of one group to be loaded again together."""

    group: Group
    models: frozenset[str]


class Mending:
    """The repairs that wait and those that run. A group has one at a time; what breaks meanwhile comes after it."""

    def __init__(self, group_of: Callable[[str], Group], limit: int) -> None:
        self._group_of = group_of
        self._limit = limit
        self._waiting: dict[Group, set[str]] = {}
        self._due: dict[Group, float] = {}
        self._running: dict[Group, tuple[Repair, float]] = {}
        self._held: set[Group] = set()
        self._budgets: dict[Group, CrashBudget] = {}

    @property
    def broken(self) -> set[str]:
        """Every model that does not serve now."""
        running = (repair.models for repair, _ in self._running.values())
        return {model for models in (*self._waiting.values(), *running) for model in models}

    def breaks(self, models: Collection[str], now: float) -> bool:
        """Notes that models of one group broke; False: too often, so that another attempt is no use."""
        group = self._group_of(next(iter(models)))
        self._waiting.setdefault(group, set()).update(models)
        budget = self._budgets.setdefault(group, CrashBudget(self._limit))
        pause = budget.crashed(now)
        if pause is not None:
            self._due[group] = now + pause
        return pause is not None

    def start_due(self, now: float) -> list[Repair]:
        """The repairs to begin now. They run until `mended` or `failed` is called."""
        groups = [
            group for group, due in self._due.items() if now >= due and group not in {*self._running, *self._held}
        ]
        repairs = []
        for group in groups:
            del self._due[group]
            repair = Repair(group, frozenset(self._waiting.pop(group)))
            self._running[group] = (repair, now)
            repairs.append(repair)
        return repairs

    def hold(self, model: str) -> None:
        """No repair of the group of `model` begins until `release`: another version takes its place."""
        self._held.add(self._group_of(model))

    def release(self, model: str) -> None:
        self._held.discard(self._group_of(model))

    def is_repairing(self, model: str) -> bool:
        """Whether the group of `model` is being loaded right now."""
        return self._group_of(model) in self._running

    def is_broken(self, model: str) -> bool:
        """Whether anything of the group of `model` does not serve now."""
        return not self.broken.isdisjoint(self._group_of(model))

    def is_held(self, model: str) -> bool:
        return self._group_of(model) in self._held

    def supersede(self, model: str, now: float) -> None:
        """The group of `model` answers again, without the repair that waited."""
        group = self._group_of(model)
        self._due.pop(group, None)
        if self._waiting.pop(group, None):
            self._budgets[group].recovered(now)

    def mended(self, repair: Repair, now: float) -> float:
        """A repair has succeeded; returns how many seconds it took."""
        _, began = self._running.pop(repair.group)
        self._budgets[repair.group].recovered(now)
        return now - began

    def failed(self, repair: Repair, now: float) -> bool:
        """A repair has failed, and another one follows; False: too often, so that it is no use."""
        del self._running[repair.group]
        return self.breaks(repair.models, now)

    def forget(self) -> None:
        """The server has gone, and all models with it. The budgets stay."""
        self._waiting.clear()
        self._due.clear()
        self._running.clear()
        self._held.clear()
