"""Which versions are in service, and which are to be: the part of supervision that exchanges them, on its thread."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

from trireme_server.config_proto import InvalidConfig, read_config
from trireme_server.fleet import Fleet
from trireme_server.mending import Mending
from trireme_server.next_version import NextVersion, VersionRefused
from trireme_server.parts import Parts
from trireme_server.repository import Entry, Model
from trireme_server.work import Worker

_LOOK_S = 1.0


class Rollout:
    """Looks whether another version of an entry was put in service on disk. Each change is tried once."""

    def __init__(self, parts: Parts, mending: Mending) -> None:
        self.parts = parts  # with the fleet and the loader of the versions in service
        self._mending = mending
        versions = {entry.name: entry.model.version for entry in parts.fleet.entries}
        self.versions = {name: version for name, version in versions.items() if version is not None}
        self.refused: dict[str, str] = {}  # by entry: why the version on disk is not in service
        self._running: Entry | None = None  # whose version is being exchanged, as it was before
        self._seen: dict[str, tuple[int, int]] = {}  # by entry: the config on disk, as it was last looked at
        self._look_at = 0.0

    def start_due(self, worker: Worker, now: float) -> None:
        """Begins an exchange, if there is one to begin; it runs until `finish` or `refuse` is called."""
        if self._running is not None or now < self._look_at or self._mending.broken:
            return
        self._look_at = now + _LOOK_S
        entry = next((each for each in self.parts.fleet.entries if each.steps and self._has_other_version(each)), None)
        if entry is not None:
            self._running = entry
            self._mending.hold(entry.name)
            self.parts.terminal.say(f"{entry.name}: another version was put in service; it has to prove itself first")
            read = partial(read_fitting, self.parts.fleet, entry, self.parts.next_version)
            worker.roll_out(entry.name, read, self.parts.shown)

    def _has_other_version(self, entry: Entry) -> bool:
        file = entry.model.folder / "config.pbtxt"
        try:
            status = file.stat()
            if self._seen.get(entry.name) == (status.st_ino, status.st_mtime_ns):
                return False
            on_disk = Model(entry.name, entry.model.folder, read_config(file)).version
        except (OSError, InvalidConfig):
            return False
        self._seen[entry.name] = (status.st_ino, status.st_mtime_ns)
        self.refused.pop(entry.name, None)
        return on_disk is not None and on_disk != self.versions.get(entry.name)

    def adopt(self, new: NextVersion, worker: Worker) -> None:
        """It answers from now on, and whatever is loaded again is loaded in this version."""
        name, version = new.entry.name, new.entry.model.version
        assert version is not None, "it was loaded"
        entries = tuple(new.entry if entry.name == name else entry for entry in self.parts.fleet.entries)
        configs = {model: config.to_json() for model, config in new.configs.items()}
        before = self.parts.loader
        loader = dataclasses.replace(
            before, overrides={**before.overrides, **configs}, manifests={**before.manifests, name: new.manifest}
        )
        fleet = dataclasses.replace(self.parts.fleet, entries=entries)
        self.parts = dataclasses.replace(self.parts, fleet=fleet, loader=loader)
        worker.adopt(loader)
        self.versions[name] = version

    def refuse(self, entry: str, reason: str) -> None:
        """The version on disk is not put in service, and the one before stays."""
        self.refused[entry] = reason
        kept = f"version {self.versions.get(entry)} stays in service"
        self.parts.terminal.say(f"{entry}: {kept}; the one that was to follow is not put in service: {reason}", "error")
        self._end()

    def finish(self) -> None:
        """What was adopted is in service under the names of the one before."""
        if self._running is not None:
            name = self._running.name
            self.parts.terminal.say(f"{name}: version {self.versions[name]} is in service")
        self._end()

    def interrupted(self) -> None:
        """The server has gone; an exchange that ran is not tried again, for it may be what ended the server."""
        if self._running in self.parts.fleet.entries:  # not adopted yet
            self.refuse(self._running.name, "the server ended while it was being loaded")
        self._end()

    def _end(self) -> None:
        """Repairs may begin again, and other exchanges."""
        if self._running is not None:
            self._mending.release(self._running.name)
        self._running = None


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
