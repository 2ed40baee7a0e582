"""Checkpoints of the Hugging Face hub, pinned to a commit."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from trireme_export.catalogue import Source
from trireme_export.checkpoint import Checkpoint, open_checkpoint
from trireme_export.errors import SourceUnavailable
from trireme_export.files import published_folder
from trireme_export.progress import Advance

_URI = re.compile(r"hf://([\w.-]+/[\w.-]+)@([\w./-]+)")
WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.md", "LICENSE*")  # no code, and no pickle


def fetch_snapshot(source: Source, cache: Path, _advance: Advance) -> Checkpoint:
    """The files of one commit; a revision that is no full commit is resolved to one. Commits are fetched once.

    Raises:
        SourceUnavailable: the address is malformed, or the hub cannot be reached or has no such revision.
    """
    match = _URI.fullmatch(source.uri)
    if match is None:
        raise SourceUnavailable(f"{source.uri}: must be hf://org/name@revision")
    repository, revision = match.groups()
    commit = revision if re.fullmatch(r"[0-9a-f]{40}", revision) else _resolve(repository, revision)
    folder = _download(repository, commit, cache / "hub" / repository / commit)
    return open_checkpoint(f"hf://{repository}@{commit}", folder / source.folder)


def _resolve(repository: str, revision: str) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        commit = HfApi().model_info(repository, revision=revision, timeout=30).sha
    except (HfHubHTTPError, OSError, RuntimeError) as error:
        raise _unreachable(repository, revision, error) from error
    if commit is None:
        raise SourceUnavailable(f"hf://{repository}@{revision}: the hub names no commit")
    return commit


def _download(repository: str, commit: str, folder: Path) -> Path:
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        with published_folder(folder) as temporary:
            snapshot_download(repository, revision=commit, local_dir=temporary, allow_patterns=list(WANTED))
            shutil.rmtree(temporary / ".cache", ignore_errors=True)  # the client's notes on the download
    except (HfHubHTTPError, OSError, RuntimeError) as error:
        raise _unreachable(repository, commit, error) from error
    return folder


def _unreachable(repository: str, revision: str, error: Exception) -> SourceUnavailable:
    return SourceUnavailable(f"hf://{repository}@{revision}: {str(error).splitlines()[0]}")
