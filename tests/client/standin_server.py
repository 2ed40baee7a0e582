"""A real tritonserver with stand-ins for the public models, and other small models for tests."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

BACKEND = Path(__file__).parent / "standin"
BATCH_SIZE = 4
TEXT = 'input [{name: "text", data_type: TYPE_STRING, dims: [1]}]'
IMAGE = 'input [{name: "image", data_type: TYPE_STRING, dims: [1]}]'
WINDOWS = '{name: "windows", data_type: TYPE_INT32, dims: [1]}'
EMBEDDING = f'output [{{name: "embedding", data_type: TYPE_FP32, dims: [8]}}, {WINDOWS}]'
LABELS = f"""output [
    {{name: "label", data_type: TYPE_STRING, dims: [1]}}, {{name: "score", data_type: TYPE_FP32, dims: [1]}},
    {{name: "scores", data_type: TYPE_FP32, dims: [2]}}, {WINDOWS}]"""
TOP_3 = 'output [{name: "label", data_type: TYPE_STRING, dims: [3]}, {name: "score", data_type: TYPE_FP32, dims: [3]}]'
ENTITIES = f'output [{{name: "entities", data_type: TYPE_STRING, dims: [1]}}, {WINDOWS}]'
PAIR = """input [
    {name: "query", data_type: TYPE_STRING, dims: [1]}, {name: "text", data_type: TYPE_STRING, dims: [1]}]"""
SCORE = f'output [{{name: "score", data_type: TYPE_FP32, dims: [1]}}, {WINDOWS}]'
QUEUE = """dynamic_batching { default_queue_policy {
    timeout_action: REJECT, allow_timeout_override: true, default_timeout_microseconds: 60000000 } }"""
MODELS = {
    "embed": ("embed", f"{TEXT} {EMBEDDING} instance_group [{{count: 4, kind: KIND_CPU}}]"),
    "guard": ("guard", f"{TEXT} {LABELS}"),
    "ner": ("ner", f"{TEXT} {ENTITIES}"),
    "rank": ("rank", f"{PAIR} {SCORE}"),
    "vision": ("vision", f"{IMAGE} {TOP_3}"),
    "pictures": ("pictures", f'{IMAGE} output [{{name: "embedding", data_type: TYPE_FP32, dims: [8]}}]'),
    "queued": ("embed", f"{TEXT} {EMBEDDING} {QUEUE}"),
}


@dataclass(kw_only=True)
class StandinServer:
    folder: Path
    http: str  # host:port
    grpc: str
    metrics: str
    models: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    @property
    def backend(self) -> str:
        """A name of its own: shared memory regions are named after their backend, and so can be removed."""
        return f"standin_{os.getpid()}_{self.folder.name}"

    @property
    def traces(self) -> Path:
        return self.folder / "traces"

    def url(self, protocol: str) -> str:
        return f"{protocol}://{self.grpc if protocol == 'grpc' else self.http}"

    def forget(self, model: str) -> None:
        (self.traces / model).unlink(missing_ok=True)

    def trace(self, model: str) -> list[tuple[float, float, int]]:
        """Start, end and number of items of every request that `model` answered since it was told to `forget`."""
        rows = map(str.split, (self.traces / model).read_text().splitlines())
        return [(float(start), float(end), int(items)) for start, end, items in rows]

    def lay_out(self) -> None:
        """The run folder: the wheel's Python backend with this interpreter's stub, our backend, and the repository."""
        wheel, backends = triton_folder(), self.folder / "backends"
        shutil.copytree(wheel / "backends" / "python", backends / "python")
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        shutil.copy(wheel / "python_backend_stubs" / version / "triton_python_backend_stub", backends / "python")
        shutil.copytree(BACKEND, backends / self.backend)
        (self.folder / "empty").mkdir()
        self.traces.mkdir()
        for name, (task, tensors) in MODELS.items():
            (self.folder / "repository" / name / "1").mkdir(parents=True)
            (self.folder / "repository" / name / "config.pbtxt").write_text(
                f"""backend: "{self.backend}" max_batch_size: {BATCH_SIZE} {tensors}
                parameters {{ key: "task" value: {{ string_value: "{task}" }} }}
                parameters {{ key: "trace" value: {{ string_value: "{self.traces / name}" }} }}"""
            )

    def start(self) -> None:
        """On a machine busy with other things tritonserver often ends while it starts its stubs (`lock_exception`)."""
        for _ in range(6):
            if self.start_once():
                return
        pytest.fail(f"tritonserver did not become ready:\n{(self.folder / 'log').read_text()[-4000:]}")

    def ensure_alive(self) -> None:
        """Starts it again on the same ports if it has ended."""
        if self.process is None or self.process.poll() is not None:
            self.start()

    def start_once(self) -> bool:
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder / "empty", env=environment(), stdout=log, stderr=log
            )
        while self.process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{self.http}/v2/health/ready"):
                return True
            time.sleep(0.05)
        return False

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.kill()
        for region in Path("/dev/shm").glob(f"triton_{self.backend}_backend_shm_region_*"):
            region.unlink(missing_ok=True)

    def command(self) -> list[str]:
        return [
            str(triton_folder() / "bin" / "tritonserver"),
            f"--model-repository={self.folder / 'repository'}",
            f"--backend-directory={self.folder / 'backends'}",
            "--model-control-mode=explicit",
            *(f"--load-model={name}" for name in self.models),
            "--disable-auto-complete-config",
            "--allow-gpu-metrics=false",
            *(f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")),
            f"--http-port={self.http.split(':')[1]}",
            f"--grpc-port={self.grpc.split(':')[1]}",
            f"--metrics-port={self.metrics.split(':')[1]}",
            "--exit-timeout-secs=2",
        ]


@contextlib.contextmanager
def standin_server(folder: Path, models: tuple[str, ...] = tuple(MODELS)) -> Iterator[StandinServer]:
    http, grpc, metrics = (f"127.0.0.1:{port}" for port in free_ports(3))
    server = StandinServer(folder=folder, http=http, grpc=grpc, metrics=metrics, models=models)
    server.lay_out()
    try:
        server.start()
        yield server
    finally:
        server.stop()


def triton_folder() -> Path:
    return site_packages() / "pytriton" / "tritonserver"


def site_packages() -> Path:
    return Path(sysconfig.get_path("purelib"))


def environment() -> dict[str, str]:
    libraries = [str(site_packages() / "nvidia_pytriton.libs"), sysconfig.get_config_var("LIBDIR")]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries), "PATH": path}


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
