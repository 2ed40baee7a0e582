"""The command `trireme` as an installation would give it, without installing: metadata made from pyproject.toml."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tomllib
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
# -P: an editable installation leaves its metadata in the folder of the checkout, where the tests run
RUN = [sys.executable, "-P", "-W", "error", "-c", "from trireme_client.cli import main; main()"]


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def write_metadata(
    folder: Path, entry_points: dict[str, str] | None = None, extras: dict[str, list[str]] | None = None
) -> None:
    """A dist-info folder with the project's own entry points and extras, and these besides."""
    project = pyproject()["project"]
    commands = project["entry-points"]["trireme.commands"] | (entry_points or {})
    required = project["optional-dependencies"] | (extras or {})
    info = folder / f"trireme-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "\n".join(
            ["Metadata-Version: 2.1", "Name: trireme", f"Version: {project['version']}"]
            + [f"Requires-Dist: {line}" for line in project["dependencies"]]
            + [f"Provides-Extra: {extra}" for extra in required]
            + [f"Requires-Dist: {in_extra(line, extra)}" for extra, lines in required.items() for line in lines]
        )
    )
    (info / "entry_points.txt").write_text(
        "[trireme.commands]\n" + "\n".join(f"{name} = {target}" for name, target in commands.items())
    )


def in_extra(line: str, extra: str) -> str:
    requirement = Requirement(line)
    marker = f"({requirement.marker}) and " if requirement.marker else ""
    requirement.marker = None
    return f'{requirement}; {marker}extra == "{extra}"'


def environment(metadata: Path, **more: str) -> dict[str, str]:
    path = [str(metadata), *(str(ROOT / folder) for folder in ("client", "server", "export"))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "COLUMNS": "120", **more}


def run(metadata: Path, *arguments: str, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*RUN, *arguments], input=stdin, capture_output=True, env=environment(metadata, **more), check=False, timeout=60
    )
