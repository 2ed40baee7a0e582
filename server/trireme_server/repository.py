"""A model repository on disk: its models, and the public entries they make up. Knows nothing of a running server."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trireme_server.config_proto import InvalidConfig, ModelConfig, read_config


class RepositoryError(Exception):
    """The repository does not hold what was asked for. The text says what it does hold."""


@dataclass(frozen=True)
class Model:
    """A folder of the repository that Triton can load."""

    name: str
    folder: Path
    config: ModelConfig

    @property
    def versions(self) -> list[int]:
        """Version folders, newest first. None: the model's artifacts have not been exported."""
        folders = (path for path in self.folder.iterdir() if path.is_dir() and path.name.isdigit())
        return sorted((int(path.name) for path in folders), reverse=True)

    @property
    def version(self) -> int | None:
        """The version that Triton serves: the one that the config names, else the newest. None: it is not there."""
        if self.config.version is not None:
            return self.config.version if self.config.version in self.versions else None
        return next(iter(self.versions), None)

    @property
    def version_folder(self) -> Path | None:
        """The folder of that version."""
        return None if self.version is None else self.folder / str(self.version)

    @property
    def size(self) -> int:
        """Bytes of the artifacts of that version."""
        files = self.version_folder.rglob("*") if self.version_folder is not None else ()
        return sum(file.stat().st_size for file in files if file.is_file())


@dataclass(frozen=True)
class Entry:
    """One public model with the steps behind it."""

    model: Model
    steps: tuple[Model, ...]  # empty when the entry is not an ensemble

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def models(self) -> tuple[Model, ...]:
        """In the order in which they are loaded."""
        return (*self.steps, self.model)

    @property
    def is_decoupled(self) -> bool:
        """Whether a request may have any number of answers."""
        return any(model.config.is_decoupled for model in self.models)

    @property
    def manifest_file(self) -> Path | None:
        """The manifest of this entry, beside the artifact of one of its models."""
        folders = [folder for model in self.models if (folder := model.version_folder) is not None]
        return next((file for folder in folders if (file := folder / "manifest.json").exists()), None)


@dataclass(frozen=True)
class Repository:
    """Every model of the repository, by name."""

    folder: Path
    models: Mapping[str, Model]

    def entries(self, names: Iterable[str] | None = None) -> tuple[Entry, ...]:
        """The named entries; by default every model that is not a step of another.

        Raises:
            RepositoryError: a model is not there, or is a step of another.
        """
        users = {step: model.name for model in self.models.values() for step in model.config.steps}
        chosen = sorted(set(self.models) - set(users)) if names is None else dict.fromkeys(names)
        for name in chosen:
            if name in users:
                raise RepositoryError(f"{name!r} is a step of {users[name]!r}; name that one")
            if name not in self.models:
                known = ", ".join(sorted(set(self.models) - set(users)))
                raise RepositoryError(f"{self.folder} has no entry {name!r}; it has {known}")
        return tuple(self._entry(self.models[name]) for name in chosen)

    def _entry(self, model: Model) -> Entry:
        for step in model.config.steps:
            if step not in self.models:
                raise RepositoryError(
                    f"the ensemble {model.name!r} needs a model {step!r}, which {self.folder} does not have"
                )
        return Entry(model, tuple(self.models[step] for step in model.config.steps))


def read_repository(folder: Path) -> Repository:
    """The repository in `folder`.

    Raises:
        RepositoryError: it is not there, is empty, or a config cannot be read.
    """
    if not folder.is_dir():
        raise RepositoryError(f"the model repository {folder} is not a folder; name another with --repository")
    try:
        models = [
            Model(file.parent.name, file.parent.absolute(), read_config(file)) for file in folder.glob("*/config.pbtxt")
        ]
    except InvalidConfig as error:
        raise RepositoryError(str(error)) from error
    if not models:
        command = f"trireme export NAME --repository {shlex.quote(str(folder))}"
        raise RepositoryError(f"the model repository {folder} holds no model; `{command}` makes one")
    return Repository(folder.absolute(), {model.name: model for model in sorted(models, key=lambda each: each.name)})
