"""A repository of tiny models, and a launcher over it that ends with the test."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launching import PORTS, PROBE, SERVER, Launcher, decoupled, end, ensemble, probe, write_manifest, write_model


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """`echo`, an ensemble of two steps, and `flow`, a decoupled model."""
    return write_repository(tmp_path / "repository")


def write_repository(folder: Path) -> Path:
    write_model(folder, "echo_first", probe())
    write_model(folder, "echo_second", probe())
    write_model(folder, "echo", ensemble("echo_first", "echo_second"))
    write_manifest(folder, "echo", "echo_second", {"oars": "OARS"}, "model.bin")
    write_model(folder, "flow", decoupled())
    write_manifest(folder, "flow", "flow", {"oars": "OARS"})
    return folder


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., Launcher]]:
    """`launch(repository, *options)`: a launcher that is ended with the test, and whatever it left."""
    with launching_in(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """One launcher for all the tests of a module that leave it as they found it."""
    folder = tmp_path_factory.mktemp("serving")
    with launching_in(folder) as start:
        yield start(write_repository(folder / "repository"), "--stall-timeout", "6", "--max-restarts", "1000")


@contextlib.contextmanager
def launching_in(tmp_path: Path) -> Iterator[Callable[..., Launcher]]:
    launched: list[Launcher] = []

    def start(repository: Path, *options: str, ready: bool = True, backends: Path = PROBE) -> Launcher:
        run_folder = tmp_path / "run"
        output = tmp_path / f"output-{len(launched)}"
        command = [
            *(sys.executable, "-c", "from trireme_server.commands import serve; serve()"),
            *("--repository", str(repository), "--backends", str(backends), "--run-folder", str(run_folder)),
            *("--http-port", str(PORTS[0]), "--grpc-port", str(PORTS[1])),
            *("--metrics-port", str(PORTS[2]), "--health-port", str(PORTS[3]), *options),
        ]
        environment = {**os.environ, "PYTHONPATH": str(SERVER), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        with output.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, cwd=tmp_path)
        launched.append(Launcher(process, output, run_folder))
        if ready:
            launched[-1].wait_until_ready()
        return launched[-1]

    try:
        yield start
    finally:
        for each in launched:
            end(each)


@pytest.fixture
def backends_folder(tmp_path: Path) -> Path:
    """A copy of the probe backend that a test may change."""
    return Path(shutil.copytree(PROBE, tmp_path / "backends"))
