"""Repositories of tiny models, and a running `trireme serve` over one."""

import base64
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format, text_format
from trireme_server.processes import Processes
from trireme_server.stubs import Stub, find_stubs
from tritonclient.grpc import model_config_pb2

PROBE = Path(__file__).parent / "backends"
SERVER = Path(__file__).parents[2] / "server"
START_TIMEOUT_S = 60

TEXT_IN = {"name": "text", "data_type": "TYPE_STRING", "dims": [1]}
TEXT_OUT = {"name": "answer", "data_type": "TYPE_STRING", "dims": [1]}


def probe(**changes: Any) -> dict[str, Any]:
    """The config of a model on the probe backend, as JSON."""
    return {"backend": "probe", "max_batch_size": 0, "input": [TEXT_IN], "output": [TEXT_OUT], **changes}


def decoupled(**changes: Any) -> dict[str, Any]:
    return probe(model_transaction_policy={"decoupled": True}, **changes)


def parameters(**values: str) -> dict[str, Any]:
    return {key: {"string_value": value} for key, value in values.items()}


def ensemble(*steps: str) -> dict[str, Any]:
    """`steps` in a row, each fed with the answer of the one before."""
    names = ["text", *(f"after_{step}" for step in steps[:-1]), "answer"]
    return {
        "platform": "ensemble",
        "input": [TEXT_IN],
        "output": [TEXT_OUT],
        "ensemble_scheduling": {
            "step": [
                {
                    "model_name": step,
                    "model_version": -1,
                    "input_map": {"text": names[number]},
                    "output_map": {"answer": names[number + 1]},
                }
                for number, step in enumerate(steps)
            ]
        },
    }


def write_model(repository: Path, name: str, config: Mapping[str, Any], *, version: bool = True) -> None:
    folder = repository / name
    (folder / "1" if version else folder).mkdir(parents=True)
    message = json_format.ParseDict({"name": name, **config}, model_config_pb2.ModelConfig())
    (folder / "config.pbtxt").write_text(text_format.MessageToString(message))


def pin(repository: Path, model: str, version: int) -> None:
    with (repository / model / "config.pbtxt").open("a") as config:
        config.write(f"version_policy {{ specific {{ versions: {version} }} }}\n")


def write_manifest(
    repository: Path, entry: str, beside: str, answers: Mapping[str, str], *files: str, version: int = 1
) -> Path:
    """A manifest whose golden samples are `answers`: text -> answer. `files`, or one if none is named, are made."""
    artifacts = {}
    for name in files or ("model.bin",):
        content = f"weights of {name}".encode()
        (repository / beside / str(version) / name).write_bytes(content)
        artifacts[f"{beside}/{version}/{name}"] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    golden = [
        {
            "inputs": [_bytes_tensor("text", text)],
            "outputs": [{**_bytes_tensor("answer", answer), "check": {"equal": True}}],
        }
        for text, answer in answers.items()
    ]
    source = {"uri": f"hf://fleet/{entry}@1"}
    models = [entry, *(folder.name for folder in repository.glob(f"{entry}_*"))]
    manifest = {"schema": 1, "entry": entry, "version": version, "models": models, "task": "test", "source": source}
    file = repository / beside / str(version) / "manifest.json"
    file.write_text(json.dumps(manifest | {"artifacts": artifacts, "golden": golden}))
    return file


def _bytes_tensor(name: str, text: str) -> dict[str, Any]:
    data = [base64.b64encode(text.encode()).decode()]
    return {"name": name, "datatype": "BYTES", "shape": [1], "data_base64": data}


@dataclass
class Launcher:
    """A `trireme serve` process."""

    process: subprocess.Popen[bytes]
    output_file: Path
    run_folder: Path
    ports: Sequence[int]  # HTTP, gRPC, metrics, health
    processes: Processes = field(default_factory=Processes)

    @property
    def output(self) -> str:
        return self.output_file.read_text()

    @property
    def http(self) -> str:
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.ports[1]}"

    def health(self, path: str) -> tuple[int, Any]:
        status, body = fetch(f"http://127.0.0.1:{self.ports[3]}{path}")
        return status, json.loads(body)

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = self.health("/status")[1]
        return document

    def is_ready(self) -> bool:
        try:
            return self.health("/ready")[0] == 200
        except OSError:
            return False

    def server_pid(self) -> int:
        return int(self.status()["server_pid"])

    def stubs(self, model: str | None = None) -> list[Stub]:
        server = self.status()["server_pid"]  # None: there is none at the moment
        found = [] if server is None else find_stubs(self.processes, server)
        return [stub for stub in found if model is None or stub.model == model]

    def stub(self, model: str) -> Stub:
        (one,) = self.stubs(model)
        return one

    def ask(self, text: str, model: str = "echo", timeout_s: float = 60) -> tuple[int, str]:
        """Status, and the answer or the error."""
        tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}
        body = json.dumps({"inputs": [tensor]}).encode()
        status, answer = fetch(f"http://{self.http}/v2/models/{model}/infer", body, timeout_s)
        document = json.loads(answer)
        return status, document["outputs"][0]["data"][0] if status == 200 else document["error"]

    def wait_until(self, condition: Callable[[], object], timeout_s: float, what: str) -> float:
        """Seconds until `condition` held."""
        begin = time.monotonic()
        while time.monotonic() - begin < timeout_s:
            with contextlib.suppress(OSError):
                if condition():
                    return time.monotonic() - begin
            time.sleep(0.02)
        return pytest.fail(f"not within {timeout_s:g} s: {what}\n{self.output}")

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_S) -> float:
        ended = lambda: self.process.poll() is not None  # noqa: E731
        seconds = self.wait_until(lambda: ended() or self.is_ready(), timeout_s, "ready")
        if ended():
            pytest.fail(f"ended with {self.process.returncode}:\n{self.output}")
        return seconds

    def stop(self, timeout_s: float = 40) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def regions(self) -> list[Path]:
        return list(Path("/dev/shm").glob(f"trireme_{self.process.pid}_*"))


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def fetch(url: str, body: bytes | None = None, timeout_s: float = 5) -> tuple[int, bytes]:
    """Status and body, whatever the status."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=timeout_s) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def end(launcher: Launcher) -> None:
    if launcher.process.poll() is None:
        launcher.process.send_signal(signal.SIGTERM)
        try:
            launcher.process.wait(10)
        except subprocess.TimeoutExpired:
            launcher.process.kill()
            launcher.process.wait()
    for pid in launcher.processes.pids():
        arguments = launcher.processes.arguments(pid)
        mine = any(f"trireme_{launcher.process.pid}_shm" in argument for argument in arguments)
        if mine:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for region in launcher.regions():
        region.unlink()
