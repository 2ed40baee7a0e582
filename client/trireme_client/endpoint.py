"""Where a server is: reads `host`, `host:port` and `scheme://host:port`. Opens nothing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from trireme_client.calls import Wire

Protocol: TypeAlias = Literal["grpc", "http"]

PORTS: dict[Protocol, int] = {"grpc": 8001, "http": 8000}  # where Triton listens by default


@dataclass(frozen=True)
class Endpoint:
    protocol: Protocol
    address: str  # host:port

    @classmethod
    def parse(cls, url: str | None, protocol: Protocol | None = None) -> "Endpoint":
        """A scheme in the URL names the protocol; otherwise it is `protocol`, or gRPC. Raises `ValueError`."""
        parts = urlsplit(url if url and "://" in url else f"//{url or '127.0.0.1'}")
        scheme = _protocol(parts.scheme) if parts.scheme else protocol or "grpc"
        if protocol not in (None, scheme):
            raise ValueError(f"the URL {url!r} is for {scheme}, but the protocol asked for is {protocol}")
        if not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
            raise ValueError(f"the URL {url!r} is not of the form [grpc://|http://]HOST[:PORT]")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(scheme, f"{host}:{parts.port or PORTS[scheme]}")

    def wire(self) -> "Wire":
        """The protocol's implementation; the library behind it is imported only now."""
        if self.protocol == "grpc":
            from trireme_client.over_grpc import GrpcWire

            return GrpcWire()
        from trireme_client.over_http import HttpWire

        return HttpWire()


def _protocol(name: str) -> Protocol:
    for protocol in PORTS:
        if name == protocol:
            return protocol
    raise ValueError(f"unknown protocol {name!r}; it can be {' or '.join(PORTS)}")
