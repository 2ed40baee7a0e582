"""The command `trireme`: finds the subcommand and turns errors into a line and an exit status.

Exit status: 0 done, 1 the server or an input failed, 2 wrong usage, 3 the server is unavailable or too slow. A
subcommand may add its own. Imports little, so that `trireme --help` is quick; a module that an entry point of the
group `trireme.commands` names should do the same and import what is heavy inside its functions.
"""

import errno
import os
import sys
from importlib.metadata import version
from typing import Any

import click

from trireme_client.extras import Subcommand, subcommands

INTERRUPTED = 130  # what a shell reports for a program that SIGINT ended
CLOSED_PIPE = 141  # and SIGPIPE


class TriremeGroup(click.Group):
    """A group whose subcommands are entry points, imported when they are needed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._found: dict[str, Subcommand] | None = None
        self._help_is_wanted = False

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Help needs no more than a subcommand's own module."""
        self._help_is_wanted = not {"-h", "--help"}.isdisjoint(args)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """The outermost handler: an error becomes one line on stderr and the exit status it carries, if any."""
        try:
            super().invoke(ctx)
            sys.stdout.flush()  # so that a closed pipe is noticed here
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            os._exit(INTERRUPTED)  # at once: a request may still be under way on a thread
        except BrokenPipeError:
            _discard_output()
            ctx.exit(CLOSED_PIPE)
        except Exception as error:
            if ctx.params["debug"]:
                raise
            click.echo(f"Error: {_message(error)}", err=True)
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                _discard_output()
            ctx.exit(getattr(error, "exit_code", 1))

    def list_commands(self, _: click.Context) -> list[str]:
        return [name for name, subcommand in self._subcommands().items() if not subcommand.missing]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        subcommand = self._subcommands().get(cmd_name)
        if subcommand is None:
            return None
        if subcommand.missing and not self._help_is_wanted:
            raise click.UsageError(subcommand.advice, ctx)
        try:
            command = subcommand.entry_point.load()
        except ImportError as error:
            if subcommand.missing:
                raise click.UsageError(subcommand.advice, ctx) from error
            raise click.ClickException(f"`trireme {cmd_name}` cannot be loaded: {error}") from error
        assert isinstance(command, click.Command), f"{subcommand.entry_point.value} is not a click command"
        return command

    def _subcommands(self) -> dict[str, Subcommand]:
        if self._found is None:
            self._found = subcommands()
        return self._found


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"trireme {version('trireme')}")
        ctx.exit()


@click.group(cls=TriremeGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def trireme(**_: Any) -> None:
    """Serve trained models with Triton Inference Server, and use them."""


def main() -> None:
    """Run the command line of this process and exit."""
    if sys.stdout is None:  # closed by the caller, as by `trireme ... >&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    trireme(prog_name="trireme")


def _discard_output() -> None:
    """What is still to be flushed goes nowhere."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _message(error: Exception) -> str:
    """Errors that carry an exit status speak to the user; any other, unless the disk is full, is a bug."""
    if hasattr(error, "exit_code"):
        return str(error)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return str(error)
    return f"unexpected {type(error).__name__}: {error} (`trireme --debug ...` shows where)"
