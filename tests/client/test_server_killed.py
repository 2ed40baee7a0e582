"""What the clients do when the server goes away under them, and when it comes back."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standin_server import StandinServer, standin_server
from trireme_client import ServerError, ServerUnavailable
from trireme_client.retry import RetryPolicy

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinServer]:
    with standin_server(tmp_path_factory.mktemp("triton"), models=("guard",)) as running:
        yield running


def test_a_request_fails_at_once_when_the_server_is_killed_and_the_client_works_on_when_it_is_back(
    server: StandinServer, protocol: str, connect: Callable[..., Any]
) -> None:
    client = connect(server.url(protocol), timeout_s=60, retry=RetryPolicy(retries=100, longest_s=0.3, budget=100))
    hasty = connect(server.url(protocol), timeout_s=60, retry=RetryPolicy(retries=1))
    assert [answer.label for answer in client.classify(["good"]) + hasty.classify(["good"])] == ["safe", "safe"]
    killer = threading.Timer(0.3, server.kill)
    killer.start()
    with pytest.raises(ServerUnavailable):
        hasty.classify(["sleep 30"])
    killer.join()
    starter = threading.Timer(0.5, server.start)
    starter.start()
    assert client.classify(["asked while it was down"])[0].label == "safe"
    starter.join()


def test_a_model_whose_process_died_is_an_error_and_not_a_hang(
    server: StandinServer, protocol: str, connect: Callable[..., Any]
) -> None:
    with pytest.raises(ServerError, match="not healthy"):
        connect(server.url(protocol)).classify(["die"])
    server.kill()
    server.start()
