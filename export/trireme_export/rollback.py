"""Back to an older version of an entry, or forward again. Changes no file of a version, and needs no torch."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from trireme_export.errors import VersionRefused
from trireme_export.in_service import put_in_service
from trireme_export.install import staging_folder
from trireme_export.versions import Versions, faults_of, manifest_file, read_manifest, read_versions

DEFAULT_REPOSITORY = Path("model_repository")


@dataclass(frozen=True, kw_only=True)
class VersionReport:
    """One version as it lies in the repository."""

    version: int
    is_active: bool
    source: str  # address of the checkpoint
    size: int  # bytes of its artifacts
    exported_at: float  # seconds since 1970
    fault: str | None  # what is not as it was exported


def roll_back(repository: Path, entry: str, to: int | None) -> tuple[int | None, int]:
    """Puts version `to` in service, or the newest of the older ones.

    Returns:
        The version that was in service, and the one that is.

    Raises:
        VersionRefused: there is no such version, or its files are not those that were exported.
        InstallFailed: an export runs, or the repository cannot be written.
    """
    _known(repository, entry)
    with staging_folder(repository) as scratch:
        versions = _known(repository, entry)
        version = _choose(entry, versions, to)
        for fault in faults_of(repository, entry, version):
            raise VersionRefused(f"version {version} of {entry} stays out of service: {fault}; {_others(versions)}")
        put_in_service(repository, entry, version, scratch)
    return versions.active, version


def rollback_command(repository: Path, entry: str, to: int) -> str:
    """What to type to put version `to` in service. The commands find the default repository by themselves."""
    is_default = repository.absolute() == DEFAULT_REPOSITORY.absolute()
    where = "" if is_default else f" --repository {shlex.quote(str(repository))}"
    return f"trireme rollback {entry} --to {to}{where}"


def report_versions(repository: Path, entry: str) -> list[VersionReport]:
    """Every version, the newest first; reads all their files.

    Raises:
        VersionRefused: there is none.
    """
    versions = _known(repository, entry)
    return [_report(repository, entry, version, versions) for version in reversed(versions.whole)]


def _report(repository: Path, entry: str, version: int, versions: Versions) -> VersionReport:
    manifest = read_manifest(repository, entry, version) or {}
    return VersionReport(
        version=version,
        is_active=version == versions.active,
        source=manifest.get("source", {}).get("uri", "unknown"),
        size=sum(artifact["bytes"] for artifact in manifest.get("artifacts", {}).values()),
        exported_at=manifest_file(repository, entry, version).stat().st_mtime,
        fault=next(faults_of(repository, entry, version), None),
    )


def _known(repository: Path, entry: str) -> Versions:
    versions = read_versions(repository, entry)
    if not versions.whole:
        there = sorted(path.parent.parent.name for path in repository.glob("*_network/[0-9]*/manifest.json"))
        names = ", ".join(dict.fromkeys(name.removesuffix("_network") for name in there)) or "none"
        raise VersionRefused(f"{repository} has no exported entry {entry!r}; its entries: {names}")
    return versions


def _choose(entry: str, versions: Versions, to: int | None) -> int:
    if to is None:
        if not versions.older:
            raise VersionRefused(f"{entry} has no version older than {versions.active}; {_others(versions)}")
        return versions.older[-1]
    if to not in versions.whole:
        raise VersionRefused(f"{entry} has no version {to}; {_others(versions)}")
    return to


def _others(versions: Versions) -> str:
    others = [str(each) for each in versions.whole if each != versions.active]
    return f"--to takes {', '.join(others)}" if others else "export it again with --force for another"
