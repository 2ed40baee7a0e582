"""Items from arguments, files and stdin, in pieces that fit in memory. Knows nothing of models."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class Piece:
    """Some neighbouring lines of a source."""

    lines: list[str]
    first_line: int  # counted from 1


@dataclass(frozen=True)
class Source:
    """Where lines come from. `size` is in bytes, None if it cannot be known; `line_name` is for messages."""

    line_name: str
    size: int | None
    pieces: Callable[[], Iterator[Piece]]


def sources(arguments: tuple[str, ...], files: tuple[str, ...]) -> list[Source]:
    """The arguments, then the files; stdin if there is neither. A file named `-` is stdin."""
    found = [Source("argument", None, lambda: iter([Piece(list(arguments), 1)]))] if arguments else []
    return found + [_source(name) for name in files or (() if arguments else ("-",))]


def pieces(sources: list[Source]) -> Iterator[tuple[Source, Piece]]:
    return ((source, piece) for source in sources for piece in source.pieces())


def _source(name: str) -> Source:
    if name == "-":
        return Source("stdin, line", _size(sys.stdin.fileno()), lambda: _read_pieces(sys.stdin.buffer))

    def read() -> Iterator[Piece]:
        with open(name, "rb") as file:
            yield from _read_pieces(file)

    return Source(f"{name}, line", os.path.getsize(name), read)


def _size(descriptor: int) -> int | None:
    return os.fstat(descriptor).st_size or None  # a pipe or a terminal has none


def _read_pieces(stream: IO[bytes]) -> Iterator[Piece]:
    """Whole lines as they arrive: what one read returns makes a piece, so that a slow pipe is answered at once."""
    rest, first_line = b"", 1
    read = getattr(stream, "read1", stream.read)
    while data := read(PIECE_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield Piece(list(map(_decode, lines)), first_line)
            first_line += len(lines)
    if rest:
        yield Piece([_decode(rest)], first_line)


def _decode(line: bytes) -> str:
    """A line ends in LF or CR LF; all else belongs to the text. Bytes that are not UTF-8 become lone surrogates:
    a file's name may have them, and in a text they are refused later like any other invalid character."""
    return line.removesuffix(b"\r").decode(errors="surrogateescape")
