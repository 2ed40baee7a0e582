"""Where fetched checkpoints are kept between exports. Names are hashes of what they hold."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(project: Path) -> Path:
    """$TRIREME_CACHE; else `.cache/trireme` of a project that is a checkout of Trireme; else the user's cache."""
    if chosen := os.environ.get("TRIREME_CACHE"):
        return Path(chosen)
    if (project / "pyproject.toml").is_file():
        return project / ".cache" / "trireme"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trireme"
