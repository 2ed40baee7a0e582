"""A classification head of our own: what its description says. No torch; the weights lie beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

DESCRIPTION, WEIGHTS = "head.json", "head.safetensors"


@dataclass(frozen=True, kw_only=True)
class HeadDescription:
    """How the weights are to be read, and when the positive label is given."""

    labels: tuple[str, ...]
    positive_label: str
    threshold: float  # the positive label is given exactly when its score reaches this


def read_head(folder: Path) -> HeadDescription:
    """The description in `folder`; `python -m trireme_export.guard_head` wrote it."""
    content = json.loads((folder / DESCRIPTION).read_bytes())
    return HeadDescription(
        labels=tuple(content["labels"]), positive_label=content["positive_label"], threshold=content["threshold"]
    )
