"""What one `trireme serve` process was told to do, read once and never changed."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LogFormat = Literal["text", "json"]


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """The command line of `trireme serve`, checked."""

    repository: Path
    entries: tuple[str, ...] | None = None  # None: every entry of the repository
    backends: Path
    run_folder: Path  # holds the assembled backends and the logs of all servers started from here
    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int = 8001
    metrics_port: int = 8002
    health_port: int = 8003
    verify_artifacts: bool = True
    shutdown_timeout_s: float = 30.0  # for running requests, from the first signal on
    stall_timeout_s: float = 30.0  # without an answer while the CPU is busy
    max_restarts: int = 6  # attempts in a row to bring back a model, or the server

    @property
    def ports(self) -> dict[str, int]:
        """Every port this process will listen on, by its purpose."""
        return {
            "http": self.http_port,
            "grpc": self.grpc_port,
            "metrics": self.metrics_port,
            "health": self.health_port,
        }

    @property
    def connect_host(self) -> str:
        """Where the launcher itself reaches the server: the loopback address when it listens everywhere."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)

    @property
    def url_host(self) -> str:
        """The same as it stands in an address with a port."""
        return f"[{self.connect_host}]" if ":" in self.connect_host else self.connect_host

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
