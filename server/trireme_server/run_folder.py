"""A folder per running server: its assembled backends and its empty working directory. The log stays beside it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from trireme_server.exit_codes import ExitCode, ServeError
from trireme_server.find_server import Installation


@dataclass(frozen=True)
class RunFolder:
    """`path` goes when the server has stopped; `log` is kept until the next start on the same port."""

    path: Path
    log: Path

    @property
    def backends(self) -> Path:
        return self.path / "backends"

    @property
    def models(self) -> Path:
        """The model repository as the server is shown it (`shown_models`)."""
        return self.path / "models"

    @property
    def working_directory(self) -> Path:
        """Empty, since a stub imports from its working directory first."""
        return self.path / "empty"

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def make_run_folder(parent: Path, http_port: int) -> RunFolder:
    """A fresh folder under `parent` for the server on `http_port`; what a killed launcher left there goes."""
    folder = RunFolder(path=parent / f"serve-{http_port}", log=parent / f"triton-{http_port}.log")
    try:
        folder.remove()
        folder.working_directory.mkdir(parents=True)
        folder.models.mkdir()
        folder.log.write_bytes(b"")
    except OSError as error:
        raise ServeError(
            f"cannot write {error.filename}: {error.strerror}; choose another --run-folder", ExitCode.PREFLIGHT_FAILED
        ) from error
    return folder


def assemble_backends(installation: Installation, ours: Path, target: Path) -> None:
    """Fills `target` with everything tritonserver may load: the official backends and ours.

    Where the official backend of a name is present it wins, and ours stays out. Ours are copied with their links
    followed, so that an edit or an upgrade of the sources does not reach a running server half-way.
    """
    target.mkdir()
    _link_official(installation, target)
    python = target / "python"
    if not python.exists():
        python.mkdir()
        files = [path for path in installation.python_backend.iterdir() if path.is_file()]
        for source in (*files, installation.stub):
            shutil.copy(source, python)  # Triton refuses a library that is a link out of its folder
    for source in our_backends(ours):
        if not installation.has_official(source.name):
            shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("__pycache__"))


def our_backends(folder: Path) -> list[Path]:
    """The folders under `folder` that are Python-based Triton backends."""
    return sorted(path.parent for path in folder.glob("*/model.py"))


def _link_official(installation: Installation, target: Path) -> None:
    if installation.official_backends is None:
        return
    for source in installation.official_backends.iterdir():
        if source.is_dir():
            (target / source.name).symlink_to(source)


def default_backends() -> Path:
    """Our backends: `backends/` here, or that of the checkout this module lies in."""
    here = Path(os.curdir, "backends")
    return here if our_backends(here) else Path(__file__).resolve().parents[2] / "backends"
