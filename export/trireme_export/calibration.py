"""The texts or images that say how large a network's values become: a user's own files. Knows no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from trireme_export.errors import CalibrationRefused

MOST = 1000  # texts or images, from all over the file or folder: more say nothing new

Item = TypeVar("Item")


def calibration_files(place: Path) -> tuple[Path, ...]:
    """A file, or all files of a folder in the order of their names.

    Raises:
        CalibrationRefused: there is none.
    """
    files = tuple(sorted(path for path in place.iterdir() if path.is_file())) if place.is_dir() else (place,)
    if not files:
        raise CalibrationRefused(f"--calibration {place}: there is no file in it")
    return files


def read_texts(files: Sequence[Path]) -> list[str]:
    """Every line that is not empty.

    Raises:
        CalibrationRefused: a file is no text, or there is no line.
    """
    lines: list[str] = []
    for file in files:
        try:
            lines += file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise CalibrationRefused(
                f"--calibration {file}: it is not UTF-8 ({error.reason} at byte {error.start}); give a file with a "
                "text on each line"
            ) from error
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise CalibrationRefused(f"--calibration {files[0]}: there is no text in it; give one on each line")
    return list(_some(texts))


def read_pairs(files: Sequence[Path]) -> list[tuple[str, str]]:
    """Every line as a query and a text with a tab between.

    Raises:
        CalibrationRefused: a line has no tab.
    """
    pairs = [line.partition("\t") for line in read_texts(files)]
    for query, tab, _ in pairs:
        if not tab:
            raise CalibrationRefused(f"--calibration: {query[:60]!r} has no tab; a line is a query, a tab and a text")
    return [(query, text) for query, _, text in pairs]


def read_images(files: Sequence[Path]) -> Iterator[tuple[Path, bytes]]:
    """Files with their content, one after the other."""
    return ((file, file.read_bytes()) for file in _some(files))


def _some(items: Sequence[Item]) -> Sequence[Item]:
    """All, or MOST of them at even distances: neighbours in a file, or by name, are of one kind."""
    return items if len(items) <= MOST else [items[number * len(items) // MOST] for number in range(MOST)]
