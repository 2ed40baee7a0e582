"""A repository of tiny models, and a launcher over it that ends with the test."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from launching import PROBE, SERVER, Launcher, decoupled, end, ensemble, free_ports, probe, write_manifest, write_model


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


@pytest.fixture
def doctor(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """`doctor(repository, *options)`: what `trireme doctor` says."""

    def run(repository: Path, *options: str) -> "subprocess.CompletedProcess[str]":
        command = _command("doctor", repository, tmp_path / "run", free_ports(4))
        environment = _environment(tmp_path)
        return subprocess.run([*command, *options], env=environment, capture_output=True, text=True, check=False)

    return run


@contextlib.contextmanager
def launching_in(folder: Path) -> Iterator[Callable[..., Launcher]]:
    launched: list[Launcher] = []

    def start(repository: Path, *options: str, ready: bool = True, output: int | None = None) -> Launcher:
        """`output`: a file descriptor for what the launcher says, instead of a file."""
        run_folder, ports = folder / "run", free_ports(4)
        output_file = folder / f"output-{len(launched)}"
        with output_file.open("wb") as file:
            target = file if output is None else output
            command = [*_command("serve", repository, run_folder, ports), *options]
            process = subprocess.Popen(command, stdout=target, stderr=target, env=_environment(folder), cwd=folder)
        launched.append(Launcher(process, output_file, run_folder, ports))
        if ready:
            launched[-1].wait_until_ready()
        return launched[-1]

    try:
        yield start
    finally:
        for each in launched:
            end(each)


def _command(name: str, repository: Path, run_folder: Path, ports: Sequence[int]) -> list[str]:
    options = ("--http-port", "--grpc-port", "--metrics-port", "--health-port")
    return [
        *(sys.executable, "-c", f"from trireme_server.commands import {name}; {name}()"),
        *("--repository", str(repository), "--backends", str(PROBE), "--run-folder", str(run_folder)),
        *(part for option, port in zip(options, ports, strict=True) for part in (option, str(port))),
    ]


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SERVER), "XDG_CACHE_HOME": str(folder / "cache")}
