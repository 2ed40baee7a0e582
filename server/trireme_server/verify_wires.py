"""The two ways by which `trireme verify` asks a server."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol
from urllib.parse import urlsplit

from trireme_server import golden_grpc
from trireme_server.golden import Ask
from trireme_server.golden_http import ask_http
from trireme_server.repository import Entry
from trireme_server.triton_api import TritonApi

ProtocolName = Literal["http", "grpc"]


class Wire(Protocol):
    """One way to one server. What it does raises TritonRefused and TritonUnreachable."""

    @property
    def protocol(self) -> ProtocolName: ...

    @property
    def address(self) -> str:
        """host:port"""

    def is_served(self, model: str) -> bool:
        """Whether the server has the model loaded."""

    def asker(self, entry: Entry) -> Ask | None:
        """What sends a sample to `entry`; None: this protocol does not serve such an entry."""


@dataclass(frozen=True)
class HttpWire:
    address: str
    protocol: ProtocolName = "http"

    def is_served(self, model: str) -> bool:
        return self._triton.is_served(model)

    def asker(self, entry: Entry) -> Ask | None:
        return None if entry.is_decoupled else partial(ask_http, self._triton)

    @property
    def _triton(self) -> TritonApi:
        return TritonApi(*split_address(self.address))


@dataclass(frozen=True)
class GrpcWire:
    address: str
    protocol: ProtocolName = "grpc"

    def is_served(self, model: str) -> bool:
        return golden_grpc.is_served(self.address, model)

    def asker(self, entry: Entry) -> Ask | None:
        return partial(golden_grpc.ask_stream if entry.is_decoupled else golden_grpc.ask_grpc, self.address)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 address is in brackets.

    Raises:
        ValueError: it is not of that form.
    """
    parts = urlsplit(f"//{address}")
    with suppress(ValueError):  # a port that is no port
        if parts.hostname and parts.netloc == address and parts.username is None and parts.port:
            return parts.hostname, parts.port
    raise ValueError(f"{address!r} is not of the form HOST:PORT, such as 127.0.0.1:8000")
