"""Results on stdout, as a table for people or JSON lines for programs; progress on stderr. Asks no server."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from trireme_client.errors import InvalidInput
from trireme_client.reading import Source
from trireme_client.results import (
    Classification,
    Embedding,
    Extraction,
    ImageClassification,
    ImageEmbedding,
    Ranked,
)
from trireme_client.tasks import Result

Fields: TypeAlias = dict[str, Any]
Printed_contra = TypeVar("Printed_contra", contravariant=True)


@dataclass(frozen=True)
class View(Generic[Result]):
    """How the results of a task look. `item_name` is the column or key of the item itself."""

    item_name: str
    columns: tuple[str, ...]
    row: Callable[[Result], tuple[str, ...]]
    fields: Callable[[Result], Fields]


class Printer(Protocol[Printed_contra]):
    def add(self, item: str, outcome: Printed_contra | InvalidInput) -> None: ...

    def flush(self) -> None: ...


@contextmanager
def flushed(printer: Printer[Result]) -> Iterator[None]:
    """Shows what was added by the end of the block, however it ends."""
    try:
        yield
    finally:
        printer.flush()


class JsonLines(Generic[Result]):
    """One object per item; a refused item has the key `error` in place of the result."""

    def __init__(self, view: View[Result]) -> None:
        self._view = view

    def add(self, item: str, outcome: Result | InvalidInput) -> None:
        fields = {"error": outcome.message} if isinstance(outcome, InvalidInput) else self._view.fields(outcome)
        sys.stdout.write(json.dumps({self._view.item_name: item, **fields}) + "\n")

    def flush(self) -> None:
        sys.stdout.flush()


class Table(Generic[Result]):
    """A table that grows: its header comes with the first rows, and its columns keep their width."""

    def __init__(self, view: View[Result]) -> None:
        self._view = view
        self._rows: list[tuple[str, ...]] = []
        self._started = False

    def add(self, item: str, outcome: Result | InvalidInput) -> None:
        cells = (f"refused: {outcome.message}",) if isinstance(outcome, InvalidInput) else self._view.row(outcome)
        self._rows.append((item, *cells))

    def flush(self) -> None:
        if self._rows:
            print_table((self._view.item_name, *self._view.columns), self._rows, header=not self._started)
        self._rows, self._started = [], True


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], header: bool = True) -> None:
    """A table as wide as the terminal: the first column takes half, the others share the rest."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    table = RichTable(box=SIMPLE_HEAD, show_header=header, show_edge=False, pad_edge=False, expand=True)
    for number, column in enumerate(columns):
        table.add_column(column, ratio=1 if number else len(columns) - 1, overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_printable(cell)) for cell in row))
    console.print(table)


@contextmanager
def progress(sources: Sequence[Source]) -> Iterator[Callable[[str], None]]:
    """A function to be called with each item that is done.

    It draws a bar when stderr is a terminal and stdout is not: on the same terminal the results show the progress.
    """
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    columns = "{task.fields[items]} done", BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("items", total=total, items=0)

        def advance(item: str) -> None:
            size = len(item.encode(errors="surrogateescape")) + 1  # and its newline
            bar.update(task, advance=size, items=bar.tasks[task].fields["items"] + 1)

        yield advance


def _printable(cell: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in cell)


def _shortest(numbers: NDArray[np.float32]) -> list[float]:
    """Decimals that read back as the same float32, and no more of them than that takes."""
    return [float(str(number)) for number in numbers]


def _nine_digits(numbers: NDArray[np.float32]) -> list[float]:
    """The same for many numbers: nine digits always suffice for a float32, and are quicker to find."""
    return [float(f"{number:.9g}") for number in numbers.tolist()]


def _first_numbers(vector: NDArray[np.float32]) -> str:
    return " ".join(f"{number:.3f}" for number in vector[:4])


def _score(score: float) -> float:
    return float(str(np.float32(score)))


EMBEDDING: View[Embedding] = View(
    "text",
    ("dimensions", "windows", "embedding"),
    lambda result: (str(result.vector.size), str(result.windows), _first_numbers(result.vector)),
    lambda result: {"embedding": _nine_digits(result.vector), "windows": result.windows},
)
CLASSIFICATION: View[Classification] = View(
    "text",
    ("label", "score", "windows"),
    lambda result: (result.label, f"{result.score:.4f}", str(result.windows)),
    lambda result: {
        "label": result.label,
        "score": _score(result.score),
        "scores": _shortest(result.scores),
        "windows": result.windows,
    },
)
EXTRACTION: View[Extraction] = View(
    "text",
    ("entities", "windows"),
    lambda result: (", ".join(f"{one.text} ({one.label})" for one in result.entities), str(result.windows)),
    lambda result: {"entities": [asdict(one) for one in result.entities], "windows": result.windows},
)
RANKED: View[Ranked] = View(
    "text",
    ("index", "score", "windows"),
    lambda result: (str(result.index), f"{result.score:.4f}", str(result.windows)),
    lambda result: {"index": result.index, "score": _score(result.score), "windows": result.windows},
)
IMAGE_CLASSIFICATION: View[ImageClassification] = View(
    "file",
    ("label", "score", "others"),
    lambda result: (result.label, f"{result.score:.4f}", ", ".join(other.label for other in result.labels[1:])),
    lambda result: {"labels": [{"label": one.label, "score": _score(one.score)} for one in result.labels]},
)
IMAGE_EMBEDDING: View[ImageEmbedding] = View(
    "file",
    ("dimensions", "embedding"),
    lambda result: (str(result.vector.size), _first_numbers(result.vector)),
    lambda result: {"embedding": _nine_digits(result.vector)},
)
