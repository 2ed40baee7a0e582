"""The way of one entry from its sources to the repository. Every step that can refuse comes before the installation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trireme_export.catalogue import Entry
from trireme_export.checkpoint import Checkpoint
from trireme_export.fetch import fetch_first
from trireme_export.files import sha256_of
from trireme_export.install import CONFIG, install, staging_folder
from trireme_export.installed import why_export
from trireme_export.progress import Reporter
from trireme_export.recipe import recipe_of
from trireme_export.tasks import assemble


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Where to, and whether entries that are there are written anew."""

    repository: Path
    cache: Path
    force: bool = False


def export_entry(entry: Entry, options: ExportOptions, reporter: Reporter) -> None:
    """Export `entry` unless it is already there and intact.

    Raises:
        ExportError: why it could not be exported; the repository is as it was.
    """
    recipe = recipe_of(entry)
    reason = "exported anew, as asked" if options.force else why_export(options.repository, entry.name, recipe)
    if reason is None:
        reporter.say(entry.name, "exported and intact")
        return
    reporter.say(entry.name, reason)
    with reporter.phase(entry.name, "fetch checkpoint") as advance:
        checkpoint = fetch_first(entry.sources, options.cache, advance)
    with staging_folder(options.repository) as staged:
        models = _write(entry, recipe, checkpoint, options, staged, reporter)
        with reporter.phase(entry.name, "install"):
            install(staged, options.repository, models)


def _write(
    entry: Entry, recipe: str, checkpoint: Checkpoint, options: ExportOptions, staged: Path, reporter: Reporter
) -> list[str]:
    """Everything of the entry into `staged`; its models in the order of installation."""
    from trireme_export.manifest import manifest_text
    from trireme_export.parity import check_parity
    from trireme_export.to_onnx import write_onnx
    from trireme_export.triton_config import config_files

    with reporter.phase(entry.name, "read checkpoint"):
        assembly = assemble(entry.task, checkpoint, options.cache)
    network = f"{entry.name}_network"
    configs = config_files(entry.name, assembly.steps)
    _write_models(staged, entry.name, configs, assembly.files)
    model = staged / network / "1" / "model.onnx"
    with reporter.phase(entry.name, "convert to ONNX"):
        graph = write_onnx(assembly, model)
    with reporter.phase(entry.name, "compare with the original") as advance:
        parity = check_parity(assembly, model, advance)
    reporter.say(entry.name, f"{parity.cases} cases on {' and '.join(parity.runtimes)}: {parity.describe(assembly)}")
    with reporter.phase(entry.name, "golden samples"):
        golden = assembly.golden_samples()
    text = manifest_text(
        entry=entry.name,
        recipe=recipe,
        assembly=assembly,
        checkpoint=checkpoint,
        artifacts=_artifacts(staged),
        graph=graph,
        parity=parity,
        golden=golden,
    )
    model.with_name("manifest.json").write_text(text)
    return [*(name for name in configs if name != network), network]


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
        path.relative_to(staged).as_posix(): {"sha256": sha256_of(path), "bytes": path.stat().st_size}
        for path in files
    }
