"""Starting `trireme serve` over the exported default models, and the three ways into it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = ROOT / "model_repository"
ENTRIES = ("embed", "guard", "vision")
START_TIMEOUT_S = 180


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A running `trireme serve`; every address is `host:port`."""

    http: str
    grpc: str
    metrics: str
    health: str
    process: subprocess.Popen[bytes]
    log: Path

    def get(self, address: str, path: str) -> tuple[int, bytes]:
        return request(f"http://{address}{path}")

    def post(self, path: str, body: bytes | dict[str, Any]) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return request(f"http://{self.http}{path}", data)

    def infer_json(self, model: str, body: bytes | dict[str, Any]) -> tuple[int, Any]:
        status, answer = self.post(f"/v2/models/{model}/infer", body)
        return status, json.loads(answer)


def request(url: str, data: bytes | None = None, timeout_s: float = 60) -> tuple[int, bytes]:
    """Status and body, whatever the status."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=timeout_s) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def wait_until_ready(process: subprocess.Popen[bytes], health: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if request(f"http://{health}/ready")[0] == 200:
                return
        time.sleep(0.1)
    pytest.fail(f"trireme serve did not become ready:\n{log.read_text()[-6000:]}")


@contextlib.contextmanager
def serve(folder: Path, *options: str, repository: Path = REPOSITORY) -> Iterator[Serving]:
    http, grpc, metrics, health = free_ports(4)
    log = folder / "serve.log"
    command = [
        *(str(Path(sys.executable).with_name("trireme")), "serve", "--repository", str(repository)),
        *("--http-port", str(http), "--grpc-port", str(grpc)),
        *("--metrics-port", str(metrics), "--health-port", str(health), *options),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT, env={**os.environ})
    addresses = {"http": http, "grpc": grpc, "metrics": metrics, "health": health}
    try:
        wait_until_ready(process, f"127.0.0.1:{health}", log)
        yield Serving(**{name: f"127.0.0.1:{port}" for name, port in addresses.items()}, process=process, log=log)
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
        process.kill()


Answer = dict[str, np.ndarray[Any, Any]]
Transport = Callable[[Serving, str, str, Sequence[bytes]], Answer]


class Refused(Exception):
    """The server answered with an error; the text is its own."""


def over_json(serving: Serving, model: str, tensor: str, items: Sequence[bytes]) -> Answer:
    data = [item.decode() for item in items]
    status, answer = serving.infer_json(
        model, {"inputs": [{"name": tensor, "datatype": "BYTES", "shape": [len(items), 1], "data": data}]}
    )
    if status != 200:
        raise Refused(f"{status} {answer['error']}")
    return {output["name"]: np.array(output["data"]).reshape(output["shape"]) for output in answer["outputs"]}


def over_http(serving: Serving, model: str, tensor: str, items: Sequence[bytes]) -> Answer:
    return _official(triton_http, serving.http, model, tensor, items)


def over_grpc(serving: Serving, model: str, tensor: str, items: Sequence[bytes]) -> Answer:
    return _official(triton_grpc, serving.grpc, model, tensor, items)


def _official(module: Any, address: str, model: str, tensor: str, items: Sequence[bytes]) -> Answer:
    given = module.InferInput(tensor, [len(items), 1], "BYTES")
    given.set_data_from_numpy(np.array(list(items), dtype=object).reshape(-1, 1))
    with module.InferenceServerClient(address) as client:
        try:
            names = [output["name"] for output in _metadata(client, model)["outputs"]]
            result = client.infer(model, [given])
        except triton_http.InferenceServerException as error:
            raise Refused(f"{error.status()} {error.message()}") from error
        return {name: result.as_numpy(name) for name in names}


def _metadata(client: Any, model: str) -> dict[str, Any]:
    if isinstance(client, triton_grpc.InferenceServerClient):
        return client.get_model_metadata(model, as_json=True)  # type: ignore[no-any-return]
    return client.get_model_metadata(model)  # type: ignore[no-any-return]


TRANSPORTS: list[Transport] = [over_json, over_http, over_grpc]
