"""The launcher's own HTTP endpoint: whether the models answer rightly, which Triton's ready does not tell.

/health   200 while the launcher lives
/ready    200 when every entry has answered its golden samples and nothing is broken since, else 503
/status   what each model is doing, as JSON
/metrics  supervision and the last start, in Prometheus' format
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trireme_server import exposition
from trireme_server.exposition import Family
from trireme_server.status import Board, Counters, ModelPhase, Status


class HealthEndpoint:
    """Serves the latest status of `board` on threads of its own."""

    def __init__(self, board: Board, host: str, port: int) -> None:
        handler = type("Handler", (_Handler,), {"board": board})
        server = type("Server", (_Server,), {"address_family": socket.AF_INET6 if ":" in host else socket.AF_INET})
        self._server = server((host, port), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is not news either; anything else is a bug, and told."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    board: Board
    timeout = 10  # seconds a client may stay silent
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status = self.board.latest
        if self.path == "/health":
            self._answer(200, {"state": status.state.value})
        elif self.path == "/ready":
            self._answer(200 if status.is_ready else 503, _readiness(status))
        elif self.path == "/status":
            self._answer(200, _whole(status))
        elif self.path == "/metrics":
            self._send(200, "text/plain; version=0.0.4", exposition.write(metric_families(status)))
        else:
            self._answer(404, {"error": "there are /health, /ready, /status and /metrics"})

    def log_message(self, format: str, *args: object) -> None:
        """Health checks are not news."""

    def _answer(self, code: int, document: dict[str, Any]) -> None:
        self._send(code, "application/json", json.dumps(document) + "\n")

    def _send(self, code: int, content_type: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _readiness(status: Status) -> dict[str, Any]:
    reason = status.reason if status.is_fresh else "the supervisor does not report"
    return {"ready": status.is_ready, "state": status.state.value, "reason": reason}


def _whole(status: Status) -> dict[str, Any]:
    return {
        **_readiness(status),
        "server_pid": status.server_pid,
        "entries": dict(status.entries),
        "versions": dict(status.versions),
        "refused_versions": dict(status.refused),
        "models": {name: phase.value for name, phase in status.models.items()},
        "server_restarts": status.counters.server_restarts,
        "model_reloads": sum(status.counters.model_reloads.values()),
        "connections_closed": status.counters.connections_closed,
        "cold_start_seconds": {f"{model}/{phase}": s for (model, phase), s in status.cold_start.items()},
    }


def metric_families(status: Status) -> list[Family]:
    """The status as metrics."""
    return [*_gauges(status), *_counters(status.counters)]


def _gauges(status: Status) -> Iterator[Family]:
    yield Family("trireme_ready", "gauge", "1 when every entry answers rightly", {(): float(status.is_ready)})
    yield Family(
        "trireme_model_ready",
        "gauge",
        "1 when the model is loaded and not known to be broken",
        {(("model", name),): float(phase is ModelPhase.READY) for name, phase in status.models.items()},
    )
    yield Family(
        "trireme_entry_version",
        "gauge",
        "The version of the entry that is served",
        {(("entry", name),): float(version) for name, version in status.versions.items()},
    )
    yield Family(
        "trireme_version_refused",
        "gauge",
        "1 when the version that was put in service on disk is not served",
        {(("entry", name),): float(name in status.refused) for name in status.versions},
    )
    yield Family(
        "trireme_cold_start_seconds",
        "gauge",
        "Seconds of each phase of the last start",
        {(("model", model), ("phase", phase)): seconds for (model, phase), seconds in status.cold_start.items()},
    )


def _counters(counters: Counters) -> Iterator[Family]:
    yield Family(
        "trireme_server_restarts_total",
        "counter",
        "Times tritonserver was started again",
        {(): float(counters.server_restarts)},
    )
    yield Family(
        "trireme_model_reloads_total",
        "counter",
        "Times a model was loaded again, by reason",
        {(("model", name), ("reason", why)): float(count) for (name, why), count in counters.model_reloads.items()},
    )
    yield Family(
        "trireme_connections_closed_total",
        "counter",
        "Client connections closed because a dead stub held their requests",
        {(): float(counters.connections_closed)},
    )
