"""The way of one entry from its sources to the repository. Every step that can refuse comes before the installation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trireme_export.catalogue import Entry
from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import ParityFailed
from trireme_export.fetch import fetch_first
from trireme_export.files import sha256_of
from trireme_export.install import install, remove_old, staging_folder
from trireme_export.installed import check_name_is_free, rolled_back_from, why_export
from trireme_export.kinds import ArtifactKind
from trireme_export.progress import Reporter
from trireme_export.recipe import recipe_of
from trireme_export.rollback import rollback_command
from trireme_export.steps import entry_models
from trireme_export.targets import Target, target_of
from trireme_export.tasks import assemble, written_as
from trireme_export.versions import CONFIG, Versions, manifest_file, read_versions, stored_config

if TYPE_CHECKING:
    from trireme_export.assembly import Assembly
    from trireme_export.manifest import Verified
    from trireme_export.parity import ParityReport


KEEP = 2


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Where to, whether entries that are there are written anew, and whether anything is written at all."""

    repository: Path
    cache: Path
    force: bool = False
    dry_run: bool = False
    keep: int = KEEP  # versions out of service
    may_follow: bool = False  # be the next version of an entry from another checkpoint
    report: Path | None = None  # a folder for the comparison layer by layer; None: made of what is refused alone


@dataclass(frozen=True, kw_only=True)
class _Staged:
    """A version while it is made, in a folder laid out as the repository."""

    folder: Path
    entry: str
    version: int

    def of(self, step: str) -> Path:
        """The version folder of a step."""
        return self.folder / f"{self.entry}_{step}" / str(self.version)

    def write(self, configs: Mapping[str, str], files: Mapping[str, bytes]) -> None:
        """By model the texts of its config.pbtxt, by step/name the contents of the files."""
        for model, config in configs.items():
            (self.folder / model / str(self.version)).mkdir(parents=True, exist_ok=True)
            path = stored_config(self.folder, self.entry, self.version, model)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(config)
        for place, content in files.items():
            step, _, name = place.partition("/")
            (self.of(step) / name).write_bytes(content)

    def artifacts(self) -> dict[str, dict[str, str | int]]:
        """Every file of the version's folders by its path in the repository, the configs among them."""
        models = entry_models(self.entry)
        files = sorted(path for model in models for path in (self.folder / model / str(self.version)).rglob("*"))
        return {
            path.relative_to(self.folder).as_posix(): {"sha256": sha256_of(path), "bytes": path.stat().st_size}
            for path in files
            if path.is_file()
        }


def export_entry(entry: Entry, options: ExportOptions, reporter: Reporter) -> None:
    """Export `entry` unless it is already there and intact.

    Raises:
        ExportError: why it could not be exported; the repository is as it was.
    """
    target = target_of(entry.kind)
    check_name_is_free(options.repository, entry, may_follow=options.may_follow)
    recipe = recipe_of(entry)
    if (reason := _why_export(entry.name, recipe, options, reporter)) is None:
        return
    reporter.say(entry.name, reason)
    if options.dry_run:
        _, assembly = _read(entry, options, reporter)
        _say_files(entry.name, target, assembly, read_versions(options.repository, entry.name).next, reporter)
        return
    with staging_folder(options.repository) as staged:  # before the work: of two exports one ends at once
        checkpoint, assembly = _read(entry, options, reporter)
        versions = read_versions(options.repository, entry.name)
        new = _Staged(folder=staged, entry=entry.name, version=versions.next)
        _write_manifest(new, recipe, _make(new, entry.kind, checkpoint, assembly, options, reporter))
        with reporter.phase(entry.name, "install"):
            install(staged, options.repository, entry.name, versions.next)
            removed = remove_old(options.repository, entry.name, options.keep, versions.active, staged)
        _say_versions(options.repository, entry.name, versions, removed, reporter)


def _read(entry: Entry, options: ExportOptions, reporter: Reporter) -> tuple[Checkpoint, Assembly]:
    with reporter.phase(entry.name, "fetch checkpoint") as advance:
        checkpoint = fetch_first(entry.sources, options.cache, advance)
    with reporter.phase(entry.name, "read checkpoint"):
        assembly = written_as(entry.kind, assemble(entry.task, checkpoint, options.cache))
    for what, decided in assembly.decisions.items():
        reporter.say(entry.name, f"{what}: {decided}")
    return checkpoint, assembly


def _why_export(entry: str, recipe: str, options: ExportOptions, reporter: Reporter) -> str | None:
    """None: there is nothing to do, and it has been said why."""
    if options.force:
        return "exported anew, as asked"
    reason = why_export(options.repository, entry, recipe)
    if reason is None:
        reporter.say(entry, "exported and intact")
    elif (version := rolled_back_from(options.repository, entry, recipe)) is not None:
        reporter.say(
            entry,
            f"was rolled back from version {version}, which is of this checkpoint; "
            f"`{rollback_command(options.repository, entry, version)}` puts it in service again, "
            "--force exports another",
        )
        return None
    return reason


def _say_files(entry: str, target: Target, assembly: Assembly, version: int, reporter: Reporter) -> None:
    configs = [f"{model}/{CONFIG}" for model in entry_models(entry)]
    written = [*(f"network/{name}" for name in (*target.files, "manifest.json")), *assembly.files]
    artifacts = [f"{entry}_{suffix}/{version}/{name}" for suffix, _, name in (each.partition("/") for each in written)]
    for path in sorted(configs + artifacts):
        reporter.say(entry, f"would write {path}")


def _say_versions(repository: Path, entry: str, before: Versions, removed: Sequence[int], reporter: Reporter) -> None:
    if before.active is not None:
        back = f"`{rollback_command(repository, entry, before.active)}` goes back"
        reporter.say(entry, f"version {before.next} is in service instead of version {before.active}; {back}")
    if removed:
        reporter.say(entry, f"removed {', '.join(f'version {each}' for each in removed)}, as --keep says")


def _make(  # noqa: PLR0913, PLR0917 - all that there is of an export
    staged: _Staged,
    kind: ArtifactKind,
    checkpoint: Checkpoint,
    assembly: Assembly,
    options: ExportOptions,
    reporter: Reporter,
) -> Verified:
    """Configs and artifacts, compared with the original."""
    from trireme_export.artifact import maker_of
    from trireme_export.manifest import Verified
    from trireme_export.triton_config import config_files

    staged.write(config_files(staged.entry, assembly.steps, staged.version), assembly.files)
    target = target_of(kind)
    maker = maker_of(target)
    with reporter.phase(staged.entry, target.making):
        made = maker.write(assembly, kind, staged.of("network"))
    for note in made.notes:
        reporter.say(staged.entry, note)
    parity = _compare(staged, kind, assembly, options, reporter)
    reporter.say(staged.entry, f"{parity.cases} cases on {' and '.join(parity.runtimes)}: {parity.describe()}")
    with reporter.phase(staged.entry, "golden samples"):
        golden = assembly.golden_samples(parity.on_real)
    return Verified(assembly=assembly, kind=kind, checkpoint=checkpoint, made=made, parity=parity, golden=golden)


def _compare(
    staged: _Staged, kind: ArtifactKind, assembly: Assembly, options: ExportOptions, reporter: Reporter
) -> ParityReport:
    """The parity gate; of what it refuses, and where a report is asked for, layer by layer."""
    from trireme_export.artifact import maker_of
    from trireme_export.onnx_artifact import MODEL
    from trireme_export.parity import check_parity
    from trireme_export.parity_explained import Explainer

    runtimes = maker_of(target_of(kind)).runtimes(staged.of("network"))
    explainer = Explainer(
        entry=staged.entry,
        assembly=assembly,
        precision=kind.precision,
        graph=staged.of("network") / MODEL,
        folder=options.report or options.cache / "reports",
        reporter=reporter,
    )
    try:
        with reporter.phase(staged.entry, "compare with the original") as advance:
            parity = check_parity(assembly, kind.precision, runtimes, advance)
    except ParityFailed as refused:
        raise explainer.explained(refused) from None
    if options.report is not None:
        reporter.say(staged.entry, f"{parity.farthest}, the case farthest off: {explainer.explain(parity.farthest)}")
    return parity


def _write_manifest(staged: _Staged, recipe: str, verified: Verified) -> None:
    from trireme_export.manifest import manifest_text

    path = manifest_file(staged.folder, staged.entry, staged.version)
    path.write_text(manifest_text(staged.entry, staged.version, recipe, verified, staged.artifacts()))
