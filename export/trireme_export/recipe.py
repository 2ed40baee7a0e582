"""The hash that says when an entry has to be exported anew. No torch: an export that skips must be quick."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

from trireme_export.catalogue import Entry
from trireme_export.files import hash_folder, sha256_of
from trireme_export.kinds import ONNX_FP32

REVISION = 4  # raised when the exporter itself would write something else for the same catalogue entry


def recipe_of(entry: Entry) -> str:
    """Changes with the data of `entry`, the files that it names, local checkpoints, and the exporter's revision."""
    hashes = {path.name: sha256_of(path) for path in (*entry.task.files, *entry.kind.calibration)}
    folders = [hash_folder(Path(source.uri)) for source in entry.sources if "://" not in source.uri]
    described = dataclasses.asdict(entry)
    if entry.kind == ONNX_FP32:
        del described["kind"]  # as before there was any other: what was exported then need not be again
    content = [REVISION, described, hashes, folders]
    return hashlib.sha256(json.dumps(content, default=_name, sort_keys=True).encode()).hexdigest()


def _name(value: object) -> str:
    """Paths differ between machines; their names do not."""
    assert isinstance(value, Path), f"no {type(value).__name__} in a catalogue entry"
    return value.name
