"""What the labels of a token classifier mean for the spans that its tokens make. Knows neither tokens nor scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from trireme_triton.parameters import InvalidParameter

Scheme = Literal["bio", "bioes", "bilou", "bmes", "plain"]
_PREFIXES: dict[Scheme, str] = {"bio": "BI", "bioes": "BIES", "bilou": "BILU", "bmes": "BMES", "plain": ""}
_BEGINS, _ENDS = frozenset("BSU"), frozenset("ESLU")


@dataclass(frozen=True)
class Tag:
    """One label. `kind` is what the label says without its prefix, None outside of every span."""

    kind: str | None
    begins: bool = False  # never continues the span before it
    ends: bool = False  # is never continued


OUTSIDE = Tag(None)


def read_tags(labels: Sequence[str], scheme: Scheme, outside: str) -> list[Tag]:
    """Every label as a tag.

    Raises:
        InvalidParameter: a label has none of the scheme's prefixes.
    """
    return [OUTSIDE if label == outside else _tag(label, scheme, outside) for label in labels]


def _tag(label: str, scheme: Scheme, outside: str) -> Tag:
    if scheme == "plain":
        return Tag(label)
    prefix, hyphen, kind = label.partition("-")
    if len(prefix) != 1 or prefix not in _PREFIXES[scheme] or not hyphen or not kind:
        allowed = ", ".join(f"{letter}-..." for letter in _PREFIXES[scheme])
        raise InvalidParameter(f"parameter 'scheme' is {scheme!r}; the label {label!r} is not {outside} or {allowed}")
    return Tag(kind, begins=prefix in _BEGINS, ends=prefix in _ENDS)


def runs(tags: Iterable[Tag]) -> list[list[int]]:
    """The places of neighbouring tags that make a span each, in order.

    A tag continues the span before it if it has the same kind, unless it begins one or that one has ended. So no
    sequence is wrong: a span may begin with I or E, as in IOB1 and in what a model gets wrong.
    """
    found: list[list[int]] = []
    before = OUTSIDE
    for place, tag in enumerate(tags):
        if tag.kind is not None and (tag.kind != before.kind or tag.begins or before.ends):
            found.append([place])
        elif tag.kind is not None:
            found[-1].append(place)
        before = tag
    return found
