"""Triton's HTTP endpoints as the launcher uses them. The one module that talks to a running server over HTTP."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

_TRACEBACK = "\n\nAt:\n"
_LOAD_S = 1800.0  # a model may take long to load; the server's end closes the connection earlier


class TritonRefused(Exception):
    """The server answered with an error; the text is its own, without the Python traceback that stubs put behind it."""

    def __init__(self, message: str) -> None:
        super().__init__(message.partition(_TRACEBACK)[0])


class TritonUnreachable(Exception):
    """No answer: the server is not up, is hung or has gone."""


@dataclass(frozen=True)
class Reply:
    """An HTTP answer. `header_length` splits the body of a binary inference answer."""

    status: int
    body: bytes
    header_length: int | None


@dataclass(frozen=True)
class _Call:
    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 2.0


class TritonApi:
    """The endpoints of the server at `host`."""

    def __init__(self, host: str, http_port: int, metrics_port: int = 8002) -> None:
        self._host = host
        self._http_port = http_port
        self._metrics_port = metrics_port
        self._loads: dict[object, tuple[str, float]] = {}  # by call: that of a server that has gone may end late

    def is_live(self) -> bool:
        try:
            return self._exchange(_Call("GET", "/v2/health/live"), self._http_port).status == 200
        except TritonUnreachable:
            return False

    def is_served(self, model: str) -> bool:
        """Whether the server has `model` loaded.

        Raises:
            TritonUnreachable
        """
        return self._exchange(_Call("GET", f"/v2/models/{quote(model)}/ready"), self._http_port).status == 200

    def load(self, model: str, config: str | None) -> None:
        """Loads a model, with `config` (a whole ModelConfig as JSON) instead of its config.pbtxt.

        Raises:
            TritonRefused, TritonUnreachable
        """
        call = object()
        self._loads[call] = (model, time.monotonic())
        try:
            self._repository(model, "load", {} if config is None else {"parameters": {"config": config}})
        finally:
            del self._loads[call]

    def loads_under_way(self) -> dict[str, float]:
        """The models that are being loaded, and since when, by `time.monotonic`."""
        return dict(self._loads.copy().values())

    def unload(self, model: str) -> None:
        """Takes a model out of service, and the ensembles that use it with it; their running requests go on."""
        self._repository(model, "unload", {})

    def infer(self, model: str, body: bytes, header_length: int, timeout_s: float) -> Reply:
        """An inference request with `header_length` bytes of JSON followed by raw tensors."""
        headers = {"Inference-Header-Content-Length": str(header_length), "Content-Type": "application/octet-stream"}
        call = _Call("POST", f"/v2/models/{quote(model)}/infer", body, headers, timeout_s)
        return _accepted(self._exchange(call, self._http_port))

    def metrics(self) -> str:
        return _accepted(self._exchange(_Call("GET", "/metrics"), self._metrics_port)).body.decode()

    def _repository(self, model: str, action: str, body: dict[str, Any]) -> None:
        path = f"/v2/repository/models/{quote(model)}/{action}"
        _accepted(self._exchange(_Call("POST", path, json.dumps(body).encode(), timeout_s=_LOAD_S), self._http_port))

    def _exchange(self, call: _Call, port: int) -> Reply:
        connection = http.client.HTTPConnection(self._host, port, timeout=call.timeout_s)
        try:
            connection.request(call.method, call.path, call.body, dict(call.headers))
            response = connection.getresponse()
            length = response.getheader("Inference-Header-Content-Length")
            return Reply(response.status, response.read(), None if length is None else int(length))
        except (OSError, http.client.HTTPException, ValueError) as error:  # the last: a length that is no number
            raise TritonUnreachable(f"{call.path}: {error or type(error).__name__}") from error
        finally:
            connection.close()


def _accepted(reply: Reply) -> Reply:
    if reply.status == 200:
        return reply
    try:
        message = json.loads(reply.body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        message = reply.body.decode(errors="replace")
    raise TritonRefused(str(message).rstrip().rstrip(";").rstrip() or f"status {reply.status}")
