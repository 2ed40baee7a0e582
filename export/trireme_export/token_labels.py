"""How the labels of tokens become spans: what a token classifier's labels say. No torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trireme_export.catalogue import Aggregation
from trireme_export.errors import CheckpointRefused
from trireme_export.labelling import read_labels

OUTSIDE = "O"
Scheme = Literal["bio", "bioes", "bilou", "bmes", "plain"]
_PREFIXES: Mapping[Scheme, str] = {"bio": "BI", "bioes": "BIES", "bilou": "BILU", "bmes": "BMES"}
_LAST = {"bioes": "E", "bilou": "L", "bmes": "E"}  # of a span of several tokens, which B begins


@dataclass(frozen=True, kw_only=True)
class TokenLabelling:
    """`scheme` says how a label's prefix is read, OUTSIDE is the label of what is in no span.

    `aggregation` says what is given a label: docs/contracts.md.
    """

    labels: tuple[str, ...]  # in the order of the logits
    scheme: Scheme
    aggregation: Aggregation = "simple"

    @property
    def kinds(self) -> tuple[str, ...]:
        """What a span may be called, each once."""
        inside = (label for label in self.labels if label != OUTSIDE)
        return tuple(dict.fromkeys(label if self.scheme == "plain" else label[2:] for label in inside))


def read_token_labelling(config: Mapping[str, Any]) -> TokenLabelling:
    """What `config.json` of a token classifier says of its labels.

    Raises:
        CheckpointRefused: the labels contradict each other, or belong to no scheme.
    """
    labels = read_labels(config)
    inside = [label for label in labels if label != OUTSIDE]
    if not inside:
        raise CheckpointRefused(f"config.json: id2label names {', '.join(labels)}, and nothing that a span could be")
    plain = [label for label in inside if not re.fullmatch("[BIESLUM]-.+", label)]
    if len(plain) == len(inside):
        return TokenLabelling(labels=labels, scheme="plain")
    if plain:
        raise CheckpointRefused(
            f"config.json: id2label has the label {plain[0]} beside {next(x for x in inside if x not in plain)}: "
            f"either every label but {OUTSIDE} has a prefix as in B-PER, or none has. Rename what is not meant as one"
        )
    if OUTSIDE not in labels:
        raise CheckpointRefused(
            f"config.json: id2label has prefixes as in {inside[0]}, but no label {OUTSIDE} for what is in no span: "
            "name it so"
        )
    return TokenLabelling(labels=labels, scheme=_scheme(inside))


def _scheme(labels: list[str]) -> Scheme:
    letters = {label[0] for label in labels}
    for scheme, prefixes in _PREFIXES.items():
        if letters <= set(prefixes):
            _check_pairs(scheme, labels)
            return scheme
    known = "; ".join(f"{scheme}: {', '.join(prefixes)}" for scheme, prefixes in _PREFIXES.items())
    raise CheckpointRefused(
        f"config.json: id2label has the prefixes {', '.join(sorted(letters))}, which no scheme has together. "
        f"Known are {known}"
    )


def _check_pairs(scheme: Scheme, labels: list[str]) -> None:
    """With `bio` a span may also begin with I, as in IOB1, where B is only for a span right after another."""
    if scheme == "bio":
        return
    last = _LAST[scheme]
    for label in labels:
        needed = {"B": last, last: "B", "I": "B", "M": "B"}.get(label[0])
        if needed is not None and f"{needed}{label[1:]}" not in labels:
            raise CheckpointRefused(
                f"config.json: id2label has {label} without {needed}{label[1:]}; the scheme {scheme} needs both"
            )
