"""Whether the files of an entry are those its manifest describes. A hash once computed is remembered."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from trireme_server.manifest import Artifact, Manifest


@dataclass(frozen=True)
class ArtifactFault:
    """A file that is not what the manifest says."""

    path: str
    what: str


class HashCache:
    """sha256 by a file's identity. The change time is part of it, which no program can set back."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._hashes = _read_hashes(file)

    def sha256(self, path: Path) -> str:
        status = path.stat()
        identity = f"{path}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"
        if identity not in self._hashes:
            self._hashes[identity] = sha256_of(path)
        return self._hashes[identity]

    def save(self) -> None:
        """Keeps the hashes for the next start. A cache that cannot be written is not an error."""
        temporary = self._file.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(self._hashes))
            temporary.rename(self._file)


def artifact_faults(repository: Path, manifest: Manifest, sha256: Callable[[Path], str]) -> list[ArtifactFault]:
    """Every artifact that is missing or differs; `sha256` tells a file's hash."""
    with ThreadPoolExecutor() as pool:  # hashing releases the interpreter's lock
        found = pool.map(
            lambda item: list(_faults(repository, item[0], item[1], sha256)), sorted(manifest.artifacts.items())
        )
        return [fault for faults in found for fault in faults]


def _faults(repository: Path, path: str, artifact: Artifact, sha256: Callable[[Path], str]) -> Iterator[ArtifactFault]:
    file = repository / path
    try:
        if not file.is_file():
            yield ArtifactFault(path, "is missing")
        elif file.stat().st_size != artifact.size:
            yield ArtifactFault(path, f"has {file.stat().st_size} bytes instead of {artifact.size}")
        elif sha256(file) != artifact.sha256:
            yield ArtifactFault(path, "has another content than was exported (sha256)")
    except OSError as error:
        yield ArtifactFault(path, f"cannot be read: {error.strerror}")


def sha256_of(path: Path) -> str:
    """Hex digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def _read_hashes(file: Path) -> dict[str, str]:
    try:
        return dict(json.loads(file.read_bytes()))
    except (OSError, ValueError):
        return {}
