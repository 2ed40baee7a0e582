"""How the address of a server is read."""

import pytest
from trireme_client.endpoint import Endpoint, Protocol


@pytest.mark.parametrize(
    ("url", "protocol", "expected"),
    [
        (None, None, Endpoint("grpc", "127.0.0.1:8001")),
        (None, "http", Endpoint("http", "127.0.0.1:8000")),
        ("host", None, Endpoint("grpc", "host:8001")),
        ("host:9", "http", Endpoint("http", "host:9")),
        ("http://host", None, Endpoint("http", "host:8000")),
        ("http://host:9/", "http", Endpoint("http", "host:9")),
        ("grpc://[::1]:9", None, Endpoint("grpc", "[::1]:9")),
    ],
)
def test_a_scheme_or_the_protocol_decides_and_the_port_has_a_default(
    url: str | None, protocol: Protocol | None, expected: Endpoint
) -> None:
    assert Endpoint.parse(url, protocol) == expected


@pytest.mark.parametrize(
    ("url", "protocol", "message"),
    [
        ("ftp://host", None, "unknown protocol 'ftp'; it can be grpc or http"),
        ("http://host", "grpc", "is for http, but the protocol asked for is grpc"),
        ("http://host/path", None, "not of the form"),
        ("http://user@host", None, "not of the form"),
        ("http://", None, "not of the form"),
        ("host:port", None, "(?i)port"),
        ("host:99999", None, "(?i)port"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused(url: str, protocol: Protocol | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Endpoint.parse(url, protocol)
