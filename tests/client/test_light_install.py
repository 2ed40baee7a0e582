"""The client runs with its own dependencies only."""

import subprocess
import sys
from pathlib import Path

import pytest
from installed import environment, pyproject, write_metadata
from packaging.requirements import Requirement
from standin_server import StandinServer

BLOCKER = """
import importlib.abc, sys

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"blocked: {{name}}", name=name)

sys.meta_path.insert(0, Blocker())
from trireme_client.cli import trireme
trireme({arguments})
"""
IMPORT_NAMES = {"pillow": "PIL", "nvidia-pytriton": "pytriton", "prometheus-client": "prometheus_client"}


def blocked() -> set[str]:
    """Import names of everything that some extra needs and the light install does not."""
    project = pyproject()["project"]
    light = {Requirement(line).name for line in project["dependencies"]}
    named = {Requirement(line).name for lines in project["optional-dependencies"].values() for line in lines}
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in named - light}


@pytest.mark.system
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_the_client_needs_nothing_that_only_an_extra_brings(
    server: StandinServer, protocol: str, tmp_path: Path
) -> None:
    assert {"torch", "onnx", "transformers", "onnxruntime"} <= blocked()
    write_metadata(tmp_path)
    script = BLOCKER.format(blocked=blocked(), arguments=["embed", "text", "--url", server.url(protocol)])
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment(tmp_path), capture_output=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(b'{"text": "text", "embedding"')
