"""What tritonserver is shown of the repository: each model's config as it is loaded, and links to what lies beside it.

When Triton loads a model it also looks at the configs of the models connected with it, and loads those again that are
newer than it has. Without a copy, one that is put in service on disk would reach the server past the launcher.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from trireme_server.config_proto import ModelConfig
from trireme_server.repository import Model

_CONFIG = "config.pbtxt"


def show(shown: Path, model: Model, config: ModelConfig, name: str) -> None:
    """Shows `model` in the folder `shown` as `name`; of its versions, if the config names one, only that."""
    folder = shown / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / _CONFIG).write_text(config.to_text())
    for path in model.folder.iterdir():
        is_other_version = path.name.isdigit() and config.version not in {None, int(path.name)}
        if path.name != _CONFIG and not path.is_symlink() and not is_other_version:
            (folder / path.name).symlink_to(path)


def show_version(shown: Path, model: Model) -> None:
    """Shows the version of `model` beside the one that is shown."""
    folder = model.version_folder
    assert folder is not None, "a version that is not there was refused"
    link = shown / model.name / folder.name
    if not link.is_symlink():
        link.symlink_to(folder)


def hide(shown: Path, name: str) -> None:
    """Takes a model out of what is shown."""
    shutil.rmtree(shown / name, ignore_errors=True)
