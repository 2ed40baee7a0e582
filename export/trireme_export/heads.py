"""A classification head of our own: what its description says. No torch; the weights lie beside it."""

from __future__ import annotations

import json
from pathlib import Path

from trireme_export.labelling import Labelling

DESCRIPTION, WEIGHTS = "head.json", "head.safetensors"


def read_head(folder: Path) -> Labelling:
    """The description in `folder`; `python -m trireme_export.guard_head` wrote it."""
    content = json.loads((folder / DESCRIPTION).read_bytes())
    return Labelling(
        labels=tuple(content["labels"]),
        function="softmax",
        positive_label=content["positive_label"],
        threshold=content["threshold"],
    )
