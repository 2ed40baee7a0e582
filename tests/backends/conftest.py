"""A real tritonserver on free ports with this project's backends, for tests of any of them."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

BACKENDS = Path(__file__).parents[2] / "backends"
START_TIMEOUT_S = 120


@dataclass(frozen=True, kw_only=True)
class Triton:
    """A running server. `http`, `grpc` and `metrics` are `host:port`, as tritonclient takes them."""

    http: str
    grpc: str
    metrics: str
    process: subprocess.Popen[bytes]
    log: Path

    def metric_lines(self, prefix: str) -> list[str]:
        """The lines of /metrics that start with `prefix`."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as answer:
            return [line for line in answer.read().decode().splitlines() if line.startswith(prefix)]


@pytest.fixture(scope="session")
def write_model() -> Callable[..., Path]:
    """`write_model(repository, name, config, files)`: a model folder with its config.pbtxt and version 1's files.

    `config` is the ModelConfig message in its JSON form; `name` is filled in.
    """

    def write(repository: Path, name: str, config: Mapping[str, Any], files: Mapping[str, bytes] = {}) -> Path:
        version = repository / name / "1"
        version.mkdir(parents=True)
        message = json_format.ParseDict({"name": name, **config}, model_config_pb2.ModelConfig())
        (repository / name / "config.pbtxt").write_text(text_format.MessageToString(message))
        for file, content in files.items():
            (version / file).write_bytes(content)
        return version

    return write


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Triton]]:
    """`triton(repository)`: a server in explicit model control, stopped when the module's tests are done.

    It is ready when it has loaded `models`, by default all of the repository. `options` are further arguments.
    Configs must be complete unless it may `auto_complete` them.
    """
    with contextlib.ExitStack() as servers:

        def start(
            repository: Path,
            *,
            models: Sequence[str] = ("*",),
            options: Sequence[str] = (),
            auto_complete: bool = False,
        ) -> Triton:
            run_folder = tmp_path_factory.mktemp("triton")
            complete = [] if auto_complete else ["--disable-auto-complete-config"]
            arguments = [*(f"--load-model={model}" for model in models), *complete, *options]
            return servers.enter_context(_server(repository, run_folder, arguments))

        yield start


@contextlib.contextmanager
def _server(repository: Path, run_folder: Path, arguments: Sequence[str]) -> Iterator[Triton]:
    shm_prefix = f"trireme_test_{uuid.uuid4().hex[:12]}_"
    ports = _free_ports(3)
    command = [*_command(repository, run_folder, shm_prefix, ports), *arguments]
    log = run_folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=run_folder / "cwd", env=_environment(), stdout=output, stderr=output)
    http, grpc, metrics = (f"127.0.0.1:{port}" for port in ports)
    try:
        _wait_until_ready(process, http, log)
        yield Triton(http=http, grpc=grpc, metrics=metrics, process=process, log=log)
    finally:
        _stop(process)
        for region in Path("/dev/shm").glob(f"{shm_prefix}*"):
            region.unlink()


def _command(repository: Path, run_folder: Path, shm_prefix: str, ports: list[int]) -> list[str]:
    package = _package("pytriton") / "tritonserver"
    backends = run_folder / "backends"
    shutil.copytree(package / "backends" / "python", backends / "python")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copy(package / "python_backend_stubs" / version / "triton_python_backend_stub", backends / "python")
    for backend in BACKENDS.iterdir():
        if (backend / "model.py").exists():
            shutil.copytree(backend, backends / backend.name, ignore=shutil.ignore_patterns("__pycache__"))
    (run_folder / "cwd").mkdir()  # empty: a stub imports from its working directory first
    http, grpc, metrics = map(str, ports)
    return [
        str(package / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-region-prefix-name={shm_prefix}",
        "--model-control-mode=explicit",
        "--allow-gpu-metrics=false",
        "--exit-timeout-secs=5",
        *("--http-address=127.0.0.1", "--http-port", http),
        *("--grpc-address=127.0.0.1", "--grpc-port", grpc),
        *("--metrics-address=127.0.0.1", "--metrics-port", metrics),
    ]


def _environment() -> dict[str, str]:
    libraries = [_package("pytriton").parent / "nvidia_pytriton.libs", sysconfig.get_config_var("LIBDIR")]
    return {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        pytest.fail(f"the package {name} is not installed: install the extra 'server'")
    return Path(spec.origin).parent


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _wait_until_ready(process: subprocess.Popen[bytes], http: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{http}/v2/health/ready", timeout=5):
            return
        time.sleep(0.05)
    pytest.fail(f"tritonserver did not start:\n{log.read_text()[-6000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
