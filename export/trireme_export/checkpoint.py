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

    def read_object(self, name: str) -> dict[str, Any]:
        """The JSON object in the file `name`.

        Raises:
            CheckpointRefused: there is no such file, or it holds something else.
        """
        content = self.read_json(name)
        if not isinstance(content, dict):
            raise CheckpointRefused(f"{self.uri}: {name} is not a JSON object, but {json.dumps(content)[:80]}")
        return content

    def below(self, folder: str) -> Checkpoint:
        """What lies in `folder` of it."""
        inside = {name: PurePosixPath(name) for name in self.files if PurePosixPath(name).is_relative_to(folder)}
        files = {path.relative_to(folder).as_posix(): self.files[name] for name, path in inside.items()}
        return dataclasses.replace(self, folder=self.folder / folder, files=files)


def open_checkpoint(
    uri: str, folder: Path, *, archive_sha256: str | None = None, allow_pickle: bool = False
) -> Checkpoint:
    """Hash the files of `folder`."""
    files = hash_folder(folder)
    if not files:
        raise CheckpointRefused(f"{uri}: {folder} has no files")
    return Checkpoint(uri=uri, folder=folder, files=files, archive_sha256=archive_sha256, allow_pickle=allow_pickle)
