"""Files and folders that appear whole or not at all, and their hashes."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def sha256_of(path: Path) -> str:
    """Hex digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def hash_folder(folder: Path) -> dict[str, str]:
    """Relative path (with slashes) to sha256, of every file below `folder`, sorted, but for hidden folders."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path.relative_to(folder)))
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}


def _is_hidden(path: Path) -> bool:
    """In `.git`, `.cache` and the like, which change by themselves."""
    return any(part.startswith(".") for part in path.parent.parts)


@contextmanager
def published_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target` that is renamed to it when the block ends without an error.

    Where another process was quicker, its folder stays and ours is dropped: names in the cache say the content.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name[:16]}-", dir=target.parent))
    try:
        yield temporary
        if not target.exists():
            temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` under a temporary name, then rename it to `path`."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:16]}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)  # mkstemp gives 0600; a server may run as another user
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
