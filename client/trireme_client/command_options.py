"""What the subcommands of the client have in common: their options."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from trireme_client.endpoint import Protocol

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the commands that take items have in common, named like their options."""

    files: tuple[str, ...]
    model: str
    as_json: bool | None
    keep_going: bool
    url: str | None
    protocol: Protocol | None
    timeout: float


def _finite(_ctx: click.Context, _param: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number of seconds")
    return value


def server_options(function: Function) -> Function:
    """Which server, and how long to wait for it."""
    for option in (
        click.option(
            "--timeout", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True, callback=_finite,
            help="Seconds for each request, retries included.",
        ),
        click.option("--protocol", type=click.Choice(["grpc", "http"]), help="Default: what --url says, or gRPC."),
        click.option(
            "--url",
            envvar="TRIREME_URL",
            help="HOST[:PORT], grpc://HOST[:PORT] or http://HOST[:PORT]. Default: 127.0.0.1; also from $TRIREME_URL.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def format_option(function: Function) -> Function:
    """How results are printed."""
    help_text = "Default: a table on a terminal, JSON lines in a pipe."
    return click.option("--json/--table", "as_json", default=None, help=help_text)(function)


def item_options(what: str, model: str | None) -> Callable[[Function], Function]:
    """Of a command that takes items, of which a line of a file holds `what`.

    `model` is the default; None: it has to be given.
    """
    choice: dict[str, Any] = {"required": True} if model is None else {"default": model, "show_default": True}

    def decorate(function: Function) -> Function:
        for option in (
            click.option("--keep-going", is_flag=True, help="Print refused items as errors and do the rest; exit 1."),
            format_option,
            server_options,
            click.option("--model", **choice),
            click.option(
                "--file", "files", multiple=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True),
                help=f"A file with {what} a line; - is stdin. Can be given again.",
            ),
        ):  # fmt: skip
            function = option(function)
        return function

    return decorate
