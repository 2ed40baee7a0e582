"""One real server for all the tests of the client, and the clients to try it with."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standin_server import StandinServer, standin_server
from trireme_client import AsyncClient, Client


@pytest.fixture(scope="session")
def session_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinServer]:
    with standin_server(tmp_path_factory.mktemp("triton")) as running:
        yield running


@pytest.fixture
def server(session_server: StandinServer) -> StandinServer:
    """Alive: a bare tritonserver may end when one of its stubs was not given the CPU for a second."""
    session_server.ensure_alive()
    return session_server


@pytest.fixture(params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


class BlockingAsyncClient:
    """An `AsyncClient` with the methods of a `Client`, so that one test tries both."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.client = AsyncClient(*args, **kwargs)
        self.loop = asyncio.new_event_loop()

    def stream(self, *args: Any) -> Iterator[Any]:
        outcomes = self.client.stream(*args)
        try:
            while True:
                yield self.loop.run_until_complete(anext(outcomes))
        except StopAsyncIteration:
            return
        finally:
            self.loop.run_until_complete(outcomes.aclose())

    def close(self) -> None:
        self.loop.run_until_complete(self.client.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)
        return lambda *args, **kwargs: self.loop.run_until_complete(method(*args, **kwargs))


@pytest.fixture(params=[Client, BlockingAsyncClient], ids=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients of either kind, and closes them."""
    clients = []

    def make(*args: Any, **kwargs: Any) -> Any:
        clients.append(request.param(*args, **kwargs))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(server: StandinServer, protocol: str, connect: Callable[..., Any]) -> Any:
    return connect(server.url(protocol), timeout_s=20)
