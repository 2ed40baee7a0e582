"""The way of one entry from its sources to the repository. Every step that can refuse comes before the installation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trireme_export.catalogue import Entry
from trireme_export.checkpoint import Checkpoint
from trireme_export.fetch import fetch_first
from trireme_export.files import sha256_of
from trireme_export.install import CONFIG, install, staging_folder
from trireme_export.installed import check_name_is_free, manifest_path, why_export
from trireme_export.progress import Reporter
from trireme_export.recipe import recipe_of
from trireme_export.steps import entry_models
from trireme_export.tasks import assemble

if TYPE_CHECKING:
    from trireme_export.assembly import Assembly
    from trireme_export.manifest import Verified


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Where to, whether entries that are there are written anew, and whether anything is written at all."""

    repository: Path
    cache: Path
    force: bool = False
    dry_run: bool = False


def export_entry(entry: Entry, options: ExportOptions, reporter: Reporter) -> None:
    """Export `entry` unless it is already there and intact.

    Raises:
        ExportError: why it could not be exported; the repository is as it was.
    """
    check_name_is_free(options.repository, entry)
    recipe = recipe_of(entry)
    reason = "exported anew, as asked" if options.force else why_export(options.repository, entry.name, recipe)
    if reason is None:
        reporter.say(entry.name, "exported and intact")
        return
    reporter.say(entry.name, reason)
    with reporter.phase(entry.name, "fetch checkpoint") as advance:
        checkpoint = fetch_first(entry.sources, options.cache, advance)
    with reporter.phase(entry.name, "read checkpoint"):
        assembly = assemble(entry.task, checkpoint, options.cache)
    for what, decided in assembly.decisions.items():
        reporter.say(entry.name, f"{what}: {decided}")
    if options.dry_run:
        _say_files(entry.name, assembly, reporter)
        return
    with staging_folder(options.repository) as staged:
        verified = _make(entry.name, checkpoint, assembly, staged, reporter)
        _write_manifest(entry, recipe, verified, staged)
        with reporter.phase(entry.name, "install"):
            install(staged, options.repository, _in_order(entry.name, staged))


def _say_files(entry: str, assembly: Assembly, reporter: Reporter) -> None:
    configs = [f"{model}/{CONFIG}" for model in entry_models(entry)]
    written = ["network/model.onnx", "network/manifest.json", *assembly.files]
    artifacts = [f"{entry}_{suffix}/1/{name}" for suffix, _, name in (place.partition("/") for place in written)]
    for path in sorted(configs + artifacts):
        reporter.say(entry, f"would write {path}")


def _make(entry: str, checkpoint: Checkpoint, assembly: Assembly, staged: Path, reporter: Reporter) -> Verified:
    """Configs and artifacts into `staged`, compared with the original."""
    from trireme_export.manifest import Verified
    from trireme_export.parity import check_parity
    from trireme_export.to_onnx import write_onnx
    from trireme_export.triton_config import config_files

    _write_models(staged, entry, config_files(entry, assembly.steps), assembly.files)
    model = staged / f"{entry}_network" / "1" / "model.onnx"
    with reporter.phase(entry, "convert to ONNX"):
        graph = write_onnx(assembly, model)
    with reporter.phase(entry, "compare with the original") as advance:
        parity = check_parity(assembly, model, advance)
    reporter.say(entry, f"{parity.cases} cases on {' and '.join(parity.runtimes)}: {parity.describe(assembly)}")
    with reporter.phase(entry, "golden samples"):
        golden = assembly.golden_samples()
    return Verified(assembly=assembly, checkpoint=checkpoint, graph=graph, parity=parity, golden=golden)


def _write_manifest(entry: Entry, recipe: str, verified: Verified, staged: Path) -> None:
    from trireme_export.manifest import manifest_text

    path = manifest_path(staged, entry.name)
    path.write_text(manifest_text(entry.name, recipe, verified, _artifacts(staged)))


def _in_order(entry: str, staged: Path) -> list[str]:
    """The staged models, the one with the manifest last."""
    network = f"{entry}_network"
    return [*sorted(path.name for path in staged.iterdir() if path.name != network), network]


def _write_models(staged: Path, entry: str, configs: Mapping[str, str], files: Mapping[str, bytes]) -> None:
    for name, config in configs.items():
        (staged / name / "1").mkdir(parents=True)
        (staged / name / CONFIG).write_text(config)
    for place, content in files.items():
        suffix, _, name = place.partition("/")
        (staged / f"{entry}_{suffix}" / "1" / name).write_bytes(content)


def _artifacts(staged: Path) -> dict[str, dict[str, str | int]]:
    """Every file of the version folders by its path in the repository."""
    files = sorted(path for path in staged.glob("*/1/*") if path.is_file())
    return {
        path.relative_to(staged).as_posix(): {"sha256": sha256_of(path), "bytes": path.stat().st_size} for path in files
    }
