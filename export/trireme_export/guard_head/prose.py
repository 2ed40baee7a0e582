"""Harmless prose: paragraphs from the docstrings of well-known packages. Nothing of them is kept in this repository.

The collections of prompts hold short questions and remarks; a head trained on those alone takes a third of all
technical prose for injections.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trireme_export.catalogue import Source
from trireme_export.guard_head.corpus import Example, Split

LENGTHS = range(40, 1500)  # characters
LEAST_SHARE_OF_LETTERS = 0.9  # and spaces, or it is code


@dataclass(frozen=True, kw_only=True)
class Prose:
    """A package, whose licence allows what we do, and how many of its paragraphs go into a split."""

    source: Source
    licence: str
    split: Split
    count: int


PROSE = (
    Prose(
        source=Source(
            uri="pypi://networkx==3.6.1#sha256=d47fbf302e7d9cbbb9e2555a0d267983d2aa476bac30e90dfbe5669bd57f3762",
            folder="networkx",
        ),
        licence="BSD-3-Clause",
        split="train",
        count=1500,
    ),
    Prose(
        source=Source(
            uri="pypi://sqlalchemy==2.1.9#sha256=449fed5c2caa3b278cc57499d09db001fb3f28dc7f18affc48142aee4dcc0cdf",
            folder="sqlalchemy",
        ),
        licence="MIT",
        split="train",
        count=1500,
    ),
    Prose(
        source=Source(
            uri="pypi://django==5.2.19#sha256=5965d974a5218a2b68a11dd1276434707f23886525c23f0598eccedaf4f4ca00",
            folder="django",
        ),
        licence="BSD-3-Clause",
        split="test",
        count=1000,
    ),
)


def read_prose(prose: Prose, folder: Path) -> list[Example]:
    """As many different paragraphs as `prose` asks for, chosen at random but always the same ones."""
    found = sorted({text for file in folder.rglob("*.py") if "tests" not in file.parts for text in _paragraphs(file)})
    chosen = random.Random(0).sample(found, prose.count)
    return [Example(text=text, label=0, split=prose.split, kind="prose") for text in chosen]


def _paragraphs(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                text = " ".join(paragraph.split())
                if _is_prose(text):
                    yield text


def _is_prose(text: str) -> bool:
    if len(text) not in LENGTHS or not text[0].isupper() or text[-1] not in ".?!:":
        return False
    return sum(each.isalpha() or each == " " for each in text) / len(text) >= LEAST_SHARE_OF_LETTERS
