"""The subcommands of the client. Each reads items, asks the server and prints; imports what is heavy late."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from trireme_client.command_options import Options, format_option, item_options, server_options
from trireme_client.errors import InvalidInput
from trireme_client.reading import Piece, Source, pieces, sources

if TYPE_CHECKING:
    from trireme_client.client import Client
    from trireme_client.endpoint import Protocol
    from trireme_client.printing import Printer, View
    from trireme_client.results import Classification
    from trireme_client.tasks import Result, Task

FLAGGED = 4  # exit status of `classify --fail-on`


@click.command()
@click.argument("texts", nargs=-1)
@item_options("a text", model="embed")
def embed(texts: tuple[str, ...], **options: Any) -> None:
    """Turn texts into vectors.

    TEXTS are arguments, or lines of --file, or lines of stdin: one result per line, in order.
    """
    from trireme_client.printing import EMBEDDING
    from trireme_client.tasks import EMBED

    _run(EMBED, EMBEDDING, texts, Options(**options))


@click.command()
@click.argument("texts", nargs=-1)
@click.option(
    "--fail-on", metavar="LABEL", help=f"Exit with status {FLAGGED} if any text gets this label, in any case."
)
@item_options("a text", model="guard")
def classify(texts: tuple[str, ...], fail_on: str | None, **options: Any) -> None:
    """Label texts.

    TEXTS are arguments, or lines of --file, or lines of stdin: one result per line, in order.
    """
    from trireme_client.printing import CLASSIFICATION
    from trireme_client.tasks import CLASSIFY

    labels: set[str] = set()

    def note(result: Classification) -> None:
        labels.add(result.label.casefold())

    _run(CLASSIFY, CLASSIFICATION, texts, Options(**options), note)
    if fail_on is not None and fail_on.casefold() in labels:
        click.get_current_context().exit(FLAGGED)


@click.command()
@click.argument("texts", nargs=-1)
@item_options("a text", model=None)
def extract(texts: tuple[str, ...], **options: Any) -> None:
    """Find the entities in texts, by a model of your own that labels tokens.

    TEXTS are arguments, or lines of --file, or lines of stdin: one result per line, in order.
    """
    from trireme_client.printing import EXTRACTION
    from trireme_client.tasks import EXTRACT

    _run(EXTRACT, EXTRACTION, texts, Options(**options))


@click.command()
@click.argument("documents", nargs=-1)
@click.option("--query", required=True, help="What the documents are compared with.")
@click.option("--top-k", type=click.IntRange(min=1), help="Print the best only.")
@item_options("a document", model=None)
def rerank(documents: tuple[str, ...], query: str, top_k: int | None, **options: Any) -> None:
    """Order documents by how well they fit a query, by a model of your own.

    DOCUMENTS are arguments, or lines of --file, or lines of stdin. The best comes first; `index` counts them as given,
    from 0. Refused ones come last.
    """
    from trireme_client.printing import RANKED, flushed, progress
    from trireme_client.results import ranked
    from trireme_client.tasks import RERANK

    own = Options(**options)
    found = sources(documents, own.files)
    given: list[str] = []
    relevances, refused = [], []
    with _connect(own.url, own.protocol, own.timeout) as client, progress(found) as advance:
        for source, piece in pieces(found):
            outcomes = client.stream(RERANK, [(query, line) for line in piece.lines], own.model)
            for document, outcome in _noted(outcomes, source, piece, own):
                if isinstance(outcome, InvalidInput):
                    refused.append((document, outcome))
                else:
                    relevances.append((len(given), outcome))
                given.append(document)
                advance(document)
    printer = _printer(RANKED, own)
    with flushed(printer):
        for one in ranked(relevances, top_k):
            printer.add(given[one.index], one)
        for document, refusal in refused:
            printer.add(document, refusal)
    _end_with(len(refused))


@click.command("classify-image")
@click.argument("images", nargs=-1)
@item_options("the path of an image", model="vision")
def classify_image(images: tuple[str, ...], **options: Any) -> None:
    """Label images.

    IMAGES are paths: arguments, or lines of --file, or lines of stdin. One result per path, in order.
    """
    from trireme_client.printing import IMAGE_CLASSIFICATION
    from trireme_client.tasks import CLASSIFY_IMAGE

    _run(CLASSIFY_IMAGE, IMAGE_CLASSIFICATION, images, Options(**options))


@click.command("embed-image")
@click.argument("images", nargs=-1)
@item_options("the path of an image", model=None)
def embed_image(images: tuple[str, ...], **options: Any) -> None:
    """Turn images into vectors, by a model of your own.

    IMAGES are paths: arguments, or lines of --file, or lines of stdin. One result per path, in order.
    """
    from trireme_client.printing import IMAGE_EMBEDDING
    from trireme_client.tasks import EMBED_IMAGE

    _run(EMBED_IMAGE, IMAGE_EMBEDDING, images, Options(**options))


@click.command()
@click.argument("names", nargs=-1)
@format_option
@server_options
def models(names: tuple[str, ...], as_json: bool | None, **server: Any) -> None:
    """List the models of the server, or describe the ones NAMED."""
    from trireme_client.listing import print_metadata, print_states

    with _connect(**server) as client:
        if names:
            print_metadata([client.metadata(name) for name in names], _json_wanted(as_json))
        else:
            print_states(client.models(), _json_wanted(as_json))


@click.command()
@format_option
@server_options
def health(as_json: bool | None, **server: Any) -> None:
    """Say whether the server is live and ready.

    Exit status: 0 ready, 1 live but not ready, 3 unreachable.
    """
    from trireme_client.listing import print_health

    with _connect(**server) as client:
        state = client.health()
    print_health(state, _json_wanted(as_json))
    if not state.ready:
        click.get_current_context().exit(1)


def _run(
    task: Task[Any, Result],
    view: View[Result],
    arguments: tuple[str, ...],
    options: Options,
    note: Callable[[Result], None] = lambda _: None,
) -> None:
    """Send every item and print every outcome; `note` sees each result."""
    from trireme_client.printing import flushed, progress

    found = sources(arguments, options.files)
    printer = _printer(view, options)
    refused = 0
    with _connect(options.url, options.protocol, options.timeout) as client, progress(found) as advance:
        for source, piece in pieces(found):
            outcomes = client.stream(task, piece.lines, options.model)
            with flushed(printer):
                for item, outcome in _noted(outcomes, source, piece, options, view.item_name):
                    if isinstance(outcome, InvalidInput):
                        refused += 1
                    else:
                        note(outcome)
                    printer.add(item, outcome)
                    advance(item)
    _end_with(refused)


def _noted(
    outcomes: Iterable[Result | InvalidInput], source: Source, piece: Piece, options: Options, item_name: str = "text"
) -> Iterator[tuple[str, Result | InvalidInput]]:
    """The outcomes with their lines. A refused one ends the run by its line, a file's by its name too."""
    for line, (item, outcome) in enumerate(zip(piece.lines, outcomes, strict=True), piece.first_line):
        if isinstance(outcome, InvalidInput) and not options.keep_going:
            file = f"{item!r}, " if item_name == "file" else ""
            raise InvalidInput(f"{file}{source.line_name} {line}: {outcome.message}")
        yield item, outcome


def _printer(view: View[Result], options: Options) -> Printer[Result]:
    from trireme_client.printing import JsonLines, Table

    return JsonLines(view) if _json_wanted(options.as_json) else Table(view)


def _end_with(refused: int) -> None:
    if refused:
        raise InvalidInput(f"refused items: {refused}")


def _connect(url: str | None, protocol: Protocol | None, timeout: float) -> Client:
    from trireme_client.client import Client

    try:
        return Client(url, protocol=protocol, timeout_s=timeout)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _json_wanted(as_json: bool | None) -> bool:
    return not sys.stdout.isatty() if as_json is None else as_json
