"""The command line of `trireme serve`, `trireme doctor` and `trireme verify`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from trireme_server.exit_codes import ServeError
from trireme_server.run_folder import default_backends
from trireme_server.serve_config import ServeConfig

Function = TypeVar("Function", bound=Callable[..., Any])

_PORT = click.IntRange(1, 65535)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_WHERE = "HOST:PORT"


def _address(_context: click.Context, _option: click.Parameter, value: str) -> str:
    from trireme_server.verify_wires import split_address

    try:
        split_address(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return value


def _where_options(function: Function) -> Function:
    """What `doctor` needs to know as well."""
    for option in (
        click.option("--run-folder", type=_FOLDER, default=Path(".run"), show_default=True, help="Scratch and logs."),
        click.option("--health-port", type=_PORT, default=8003, show_default=True, help="/ready, /status, /metrics."),
        click.option("--metrics-port", type=_PORT, default=8002, show_default=True, help="Triton's own metrics."),
        click.option("--grpc-port", type=_PORT, default=8001, show_default=True),
        click.option("--http-port", type=_PORT, default=8000, show_default=True),
        click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
        click.option("--verify/--no-verify", default=True, help="Compare artifacts with their manifests' hashes."),
        click.option(
            "--backends", type=_FOLDER, envvar="TRIREME_BACKENDS", help="Default: backends/ here, or of the checkout."
        ),
        click.option("--models", help="Entries to serve, separated by commas. Default: all of the repository."),
        click.option("--repository", type=_FOLDER, default=Path("model_repository"), show_default=True),
    ):
        function = option(function)
    return function


@click.command()
@_where_options
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--shutdown-timeout",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long running requests may take after Ctrl-C.",
)
@click.option(
    "--stall-timeout",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="A model that is busy this long without an answer is loaded again.",
)
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=6,
    show_default=True,
    help="Attempts in a row to bring back a model, or the server, before giving up.",
)
def serve(log_format: Any, shutdown_timeout: float, stall_timeout: float, max_restarts: int,
          **where: Any) -> None:  # fmt: skip
    """Start Triton with the models of a repository and keep them answering.

    Ready means that every model has answered its golden samples; /ready of the health port tells it.

    \b
    Exit status: 0 stopped as asked, 1 unexpected, 2 wrong command line,
    3 a check failed before the start, 4 a model failed at the start,
    5 the server failed at the start, 6 crash loop, 130 hurried by a second Ctrl-C.
    """
    from trireme_server.serve import serve as serve_until_stopped
    from trireme_server.terminal import make_terminal

    config = _config(
        shutdown_timeout_s=shutdown_timeout,
        stall_timeout_s=stall_timeout,
        max_restarts=max_restarts,
        **where,
    )
    terminal = make_terminal(log_format)
    try:
        code = serve_until_stopped(config, terminal)
    except ServeError as error:
        terminal.close()
        terminal.say(str(error), "error")
        code = error.code
    sys.exit(code)


@click.command()
@_where_options
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(as_json: bool, **where: Any) -> None:
    """Say what would keep `trireme serve` from starting, and how to fix it.

    Exit status: 0 it would start, 3 it would not.
    """
    from trireme_server.doctor import examine

    sys.exit(examine(_config(**where), as_json=as_json))


@click.command()
@click.argument("names", nargs=-1)
@click.option("--repository", type=_FOLDER, default=Path("model_repository"), show_default=True)
@click.option(
    "--url", metavar=_WHERE, callback=_address, default="127.0.0.1:8000", show_default=True, help="Its HTTP address."
)
@click.option(
    "--grpc-url",
    metavar=_WHERE,
    callback=_address,
    default="127.0.0.1:8001",
    show_default=True,
    help="Its gRPC address.",
)
@click.option("--http/--no-http", default=True, help="Ask over HTTP.")
@click.option("--grpc/--no-grpc", default=True, help="Ask over gRPC.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines, also on a terminal.")
def verify(  # noqa: PLR0913, PLR0917 - click passes every option by itself
    names: tuple[str, ...], repository: Path, url: str, grpc_url: str, http: bool, grpc: bool, as_json: bool
) -> None:
    """Replay golden samples against a running server, and compare every artifact with its sha256.

    NAMES are entries of the repository; without any, all are verified.

    \b
    Exit status: the largest that applies. 0 verified, 1 unexpected,
    2 wrong command line, or a repository that cannot be read,
    3 no server at an address, or it does not serve the model, or not over the protocol asked,
    4 a wrong answer or an error instead of one,
    5 an artifact or a manifest is missing or not as exported.
    """
    from trireme_server.repository import RepositoryError
    from trireme_server.verify import verify as verdicts_of
    from trireme_server.verify_report import print_json_lines, print_table
    from trireme_server.verify_wires import GrpcWire, HttpWire, Wire

    wires: list[Wire] = [*([HttpWire(url)] if http else []), *([GrpcWire(grpc_url)] if grpc else [])]
    if not wires:
        raise click.UsageError("--no-http and --no-grpc leave nobody to ask; `trireme doctor` compares files alone")
    show = print_json_lines if as_json or not sys.stdout.isatty() else print_table
    try:
        verdicts = show(verdicts_of(repository, names, wires))
    except RepositoryError as error:
        raise click.UsageError(str(error)) from error
    sys.exit(max(verdict.code for verdict in verdicts))


def _config(*, models: str | None, verify: bool, backends: Path | None, **options: Any) -> ServeConfig:
    entries = None if models is None else tuple(name.strip() for name in models.split(",") if name.strip())
    if entries == ():
        raise click.UsageError("--models names no entry; leave it out to serve all")
    config = ServeConfig(entries=entries, verify_artifacts=verify, backends=backends or default_backends(), **options)
    if len(set(config.ports.values())) < len(config.ports):
        given = ", ".join(f"--{purpose}-port {port}" for purpose, port in config.ports.items())
        raise click.UsageError(f"every port must be another one: {given}")
    return config
