"""Which versions are in service, and which are to be: the part of supervision that exchanges them, on its thread."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from trireme_server import events
from trireme_server.config_proto import InvalidConfig, read_config
from trireme_server.events import RolloutEvent
from trireme_server.export_advice import roll_back_to
from trireme_server.fleet import Fleet
from trireme_server.held_version import HeldVersion
from trireme_server.mending import Mending
from trireme_server.next_version import NextVersion, VersionRefused
from trireme_server.parts import Parts
from trireme_server.repository import Entry, Model
from trireme_server.roster import Roster, Trouble
from trireme_server.swap import CANDIDATE, Swap, own_name
from trireme_server.work import Worker

_LOOK_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a step of an exchange means for the models."""

    ready: Collection[str] = ()  # they answer now
    unloaded: Collection[str] = ()  # they were loaded anew: nobody answers what was lost with a stub of them
    troubles: Sequence[Trouble] = ()
    broken: Collection[str] = ()  # to be loaded again, because of `fault`
    fault: str | None = None


class Rollout:
    """Looks whether another version of an entry was put in service on disk. Each change is tried once."""

    def __init__(self, parts: Parts, mending: Mending) -> None:
        self.parts = parts  # with the fleet and the loader of the versions in service
        self._mending = mending
        versions = {entry.name: entry.model.version for entry in parts.fleet.entries}
        self.versions = {name: version for name, version in versions.items() if version is not None}
        self.refused: dict[str, str] = {}  # by entry: why the version on disk is not in service
        self._running: str | None = None  # the entry whose version is being exchanged
        self._proved: Swap | None = None  # waits for its switch
        self._adopted: Swap | None = None  # its candidates are still there
        self._is_letting_go = False  # of those
        self._seen: dict[str, tuple[int, int]] = {}  # by entry: the config on disk, as it was last looked at
        self._look_at = 0.0
        folders = {entry.name: entry.model.version_folder for entry in parts.fleet.entries}
        self._held = {name: HeldVersion(folder) for name, folder in folders.items() if folder is not None}
        self._held_next: HeldVersion | None = None

    def start_due(self, worker: Worker, now: float) -> None:
        """Begins an exchange, or goes over to the version that has proved itself; a repair that runs comes first."""
        if self._proved is not None and not self._mending.is_repairing(self._proved.name):
            swap, self._proved = self._proved, None
            self._mending.hold(swap.name)
            self._held_next = HeldVersion(swap.new.entry.model.folder / str(swap.new.version))
            worker.switch(swap)
        elif self._running is None and now >= self._look_at:
            self._look_at = now + _LOOK_S
            self._begin(worker)

    def _begin(self, worker: Worker) -> None:
        entry = next((each for each in self.parts.fleet.entries if each.steps and self._has_other_version(each)), None)
        if entry is not None:
            self._running = entry.name
            self.parts.terminal.say(f"{entry.name}: another version was put in service; it has to prove itself first")
            read = partial(read_fitting, self.parts.fleet, entry, self.parts.next_version)
            worker.prove(entry.name, read, self.parts.shown)

    def _has_other_version(self, entry: Entry) -> bool:
        file = entry.model.folder / "config.pbtxt"
        try:
            status = file.stat()
        except OSError:
            return False
        if self._seen.get(entry.name) == (status.st_ino, status.st_mtime_ns):
            return False
        self._seen[entry.name] = (status.st_ino, status.st_mtime_ns)
        self.refused.pop(entry.name, None)
        try:
            on_disk = Model(entry.name, entry.model.folder, read_config(file)).version
        except (OSError, InvalidConfig) as error:
            self._refuse(entry.name, str(error))
            return False
        return on_disk is not None and on_disk != self.versions.get(entry.name)

    def handle(self, event: RolloutEvent, worker: Worker, roster: Roster, now: float) -> Outcome:
        """A step of the exchange has been taken; begins the next one."""
        match event:
            case events.Proved(swap=swap):
                self._proved = swap
            case events.SwitchedOver(swap=swap):
                return self._switched(swap, worker, roster, now)
            case events.Settled(swap=swap, fault=None):
                return self._settled(swap, worker, roster, now)
            case events.Settled(swap=swap, fault=fault):
                self._mending.release(swap.name)  # the candidates answer until the steps have been loaded again
                return Outcome(broken=swap.steps, fault=fault)
            case events.RolledOut():
                self._end()
            case events.RolloutRefused(entry=entry, reason=reason):
                self._refuse(entry, reason)
        return Outcome()

    def _switched(self, swap: Swap, worker: Worker, roster: Roster, now: float) -> Outcome:
        """It answers from now on, and whatever is loaded again is loaded in this version."""
        self._adopt(swap.new, worker)
        self._adopted = swap
        self._mending.supersede(swap.name, now)
        roster.limits = self.parts.limits
        roster.drain(swap.steps, now, self.parts.config.shutdown_timeout_s)
        worker.settle(swap)
        troubles = roster.enlist(roster.server_pid, self._with_stubs(swap.candidates), now)
        return Outcome(ready=swap.models, troubles=troubles)

    def _settled(self, swap: Swap, worker: Worker, roster: Roster, now: float) -> Outcome:
        """Its steps run under their own names, and what broke meanwhile is out of use."""
        self._mending.supersede(swap.name, now)
        self._mending.release(swap.name)
        self.parts.terminal.say(f"{swap.name}: version {self.versions[swap.name]} is in service")
        self._let_go(swap, worker, roster, now)
        troubles = roster.enlist(roster.server_pid, self._with_stubs(swap.steps), now)
        return Outcome(ready=swap.models, troubles=troubles, unloaded=swap.models)

    def repaired(self, worker: Worker, roster: Roster, now: float) -> None:
        """Something was loaded again; if it is what did not settle, its candidates may go."""
        swap = self._adopted
        is_over = swap is None or self._is_letting_go or self._mending.is_held(swap.name)
        if swap is not None and not is_over and not self._mending.is_broken(swap.name):
            self._let_go(swap, worker, roster, now)

    def _let_go(self, swap: Swap, worker: Worker, roster: Roster, now: float) -> None:
        self._is_letting_go = True
        roster.drain(swap.candidates, now, self.parts.config.shutdown_timeout_s)
        worker.let_go(swap)

    def _with_stubs(self, models: Collection[str]) -> set[str]:
        return {model for model in models if own_name(model) in self.parts.fleet.with_stubs}

    def _adopt(self, new: NextVersion, worker: Worker) -> None:
        name = new.entry.name
        entries = tuple(new.entry if entry.name == name else entry for entry in self.parts.fleet.entries)
        configs = {model: config.to_json() for model, config in new.configs.items()}
        before, fleet = self.parts.loader, self.parts.fleet
        loader = dataclasses.replace(
            before, overrides={**before.overrides, **configs}, manifests={**before.manifests, name: new.manifest}
        )
        with_stubs = fleet.with_stubs.difference(configs) | new.with_stubs
        limits = {model + suffix: each for model, each in new.limits.items() for suffix in ("", CANDIDATE)}
        self.parts = dataclasses.replace(
            self.parts,
            fleet=dataclasses.replace(fleet, entries=entries, with_stubs=with_stubs),
            loader=loader,
            limits={**self.parts.limits, **limits},
        )
        worker.adopt(loader)
        self.versions[name] = new.version
        self._held.pop(name).release()
        assert self._held_next is not None, "it was held before the switch"
        self._held[name], self._held_next = self._held_next, None

    def _refuse(self, entry: str, reason: str) -> None:
        """The version on disk is not put in service, and the one before stays."""
        version = self.versions.get(entry)
        served = next(each for each in self.parts.fleet.entries if each.name == entry)
        advice = f"{roll_back_to(served, version)} keeps it at the next start too"
        self.refused[entry] = f"{reason}; version {version} stays in service, and {advice}"
        kept = f"version {version} stays in service"
        said = f"{entry}: {kept}; the one that was to follow is not put in service: {reason}; {advice}"
        self.parts.terminal.say(said, "error")
        self._mending.release(entry)
        self._end()

    def _end(self) -> None:
        """Another exchange may begin."""
        self._running = self._proved = self._adopted = None
        self._is_letting_go = False
        if self._held_next is not None:
            self._held_next.release()
        self._held_next = None

    def interrupted(self) -> None:
        """The server has gone; an exchange that ran is not tried again, for it may be what ended the server."""
        if self._adopted is not None:  # the next server is to find this version
            with suppress(OSError):  # then its start will say what is missing
                self._adopted.show_own()
            self._adopted.hide_candidates()
        elif self._running is not None:
            self._refuse(self._running, "the server ended while it was being loaded")
        self._end()


def read_fitting(fleet: Fleet, entry: Entry, read: Callable[[str], NextVersion]) -> NextVersion:
    """What `read` finds on disk of `entry`.

    Raises:
        VersionRefused: it cannot be exchanged on a running server, or `read` has something against it.
    """
    new = read(entry.name)
    names = [model.name for model in entry.models]
    if [model.name for model in new.entry.models] != names:
        raise VersionRefused("its steps have other names; start `trireme serve` again to serve it")
    if others := [user.name for user in fleet.users(names) if user.name != entry.name]:
        raise VersionRefused(f"{', '.join(others)} shares steps with it; start `trireme serve` again to serve it")
    return new
