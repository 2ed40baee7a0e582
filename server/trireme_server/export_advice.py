"""The commands that bring a right version of an entry. Does not know whether its checkpoint is still where it was."""

from __future__ import annotations

import shlex
from pathlib import Path

from trireme_server.manifest import Manifest
from trireme_server.repository import Entry

_CATALOGUE = ("embed", "guard", "vision")  # entries that `trireme export` knows by name
_DEFAULT = Path("model_repository")


def export_anew(entry: Entry, manifest: Manifest | None, *, options: tuple[str, ...] | None = None) -> str:
    """`manifest` is None if there is none to read; one of another entry says nothing of this one's checkpoint.

    `options` say what the network is to be written as; None: what it is.
    """
    name = _name(entry)
    where = repository_option(entry.model.folder.parent)
    if name in _CATALOGUE:
        return f"trireme export {name} --force{where}"
    known = manifest if manifest is not None and manifest.entry == name else None
    if options is None:
        options = known.options if known is not None else ()
    source = known.source if known is not None else None
    words = ["trireme export", "CHECKPOINT" if source is None else shlex.quote(source), shlex.join(options)]
    command = " ".join(filter(None, [*words, f"--name {shlex.quote(name)} --force{where}"]))
    return command if source is not None else f"export it again from its checkpoint: {command}"


def roll_back(entry: Entry) -> str:
    """What follows a complaint about the version in service; empty where there is no older one."""
    older = [each for each in entry.model.versions if entry.model.version is not None and each < entry.model.version]
    return f"; `{_with_versions('rollback', entry)}` goes back to version {older[0]}" if older else ""


def roll_back_to(entry: Entry, version: int | None) -> str:
    """The command that puts `version` in service on disk."""
    return f"`{_with_versions('rollback', entry, f'--to {version}')}`"


def choose_version(entry: Entry) -> str:
    """What to do about steps of different versions."""
    return (
        f"`{_with_versions('rollback', entry, '--to N')}` puts one version in service; "
        f"`{_with_versions('versions', entry)}` lists them"
    )


def repository_option(folder: Path) -> str:
    """What a command needs to find the repository from here; empty for the one that it takes by itself."""
    if folder.absolute() == _DEFAULT.absolute():
        return ""
    here = Path.cwd()
    shown = folder.absolute().relative_to(here) if folder.absolute().is_relative_to(here) else folder.absolute()
    return f" --repository {shlex.quote(str(shown))}"


def _with_versions(command: str, entry: Entry, *options: str) -> str:
    words = ["trireme", command, shlex.quote(_name(entry)), *options]
    return " ".join(words) + repository_option(entry.model.folder.parent)


def _name(entry: Entry) -> str:
    """As it is on disk: while a version is proved on the server its models have other names there."""
    return entry.model.folder.name
