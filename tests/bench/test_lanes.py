"""The connections that carry the load, against a server that sends its bytes as awkwardly as it can."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from trireme_bench.lanes import HttpLane, Lane, Server, open_lanes

REQUEST = b"request"
REPLY = b"HTTP/1.1 200 OK\r\nInference-Header-Content-Length: 3\r\ncontent-length: 11\r\n\r\nhello\r\n\r\nyo"


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where each connection, one after the other, is given to `serve` and closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):  # until the listening socket is shut down
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


async def exchange(port: int, count: int) -> list[tuple[bool, bytes]]:
    """What a lane calls back when it sends so many requests, one after the other."""
    found: list[tuple[bool, bytes]] = []
    done = asyncio.Event()

    def replied(lane: Lane, answered: bool, reply: bytes) -> None:
        found.append((answered, reply))
        if len(found) < count:
            lane.send(REQUEST)
        else:
            done.set()

    async with open_lanes(Server("127.0.0.1", port, "binary", None), 1, replied) as (lane,):
        lane.send(REQUEST)
        await asyncio.wait_for(done.wait(), 20)
    return found


@pytest.mark.parametrize("piece", [1, 7, len(REPLY)])
def test_a_reply_is_whole_however_it_is_cut(piece: int) -> None:
    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while connection.recv(len(REQUEST)):
            for start in range(0, len(REPLY), piece):
                connection.sendall(REPLY[start : start + piece])
                time.sleep(0.0005)

    with listening(serve) as port:
        assert asyncio.run(exchange(port, 3)) == [(True, REPLY)] * 3


def test_a_status_other_than_200_is_not_an_answer() -> None:
    refusal = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad"

    def serve(connection: socket.socket) -> None:
        connection.recv(len(REQUEST))
        connection.sendall(refusal)

    with listening(serve) as port:
        assert asyncio.run(exchange(port, 1)) == [(False, refusal)]


def test_a_connection_that_is_closed_fails_its_request_and_is_opened_anew() -> None:
    times = 0

    def serve(connection: socket.socket) -> None:
        nonlocal times
        times += 1
        connection.recv(len(REQUEST))
        if times > 1:
            connection.sendall(REPLY)

    with listening(serve) as port:
        found = asyncio.run(exchange(port, 2))
    assert found == [(False, b"connection lost: closed by the server"), (True, REPLY)]
    assert times == 2


def test_a_lane_to_a_server_that_is_gone_reports_it() -> None:
    async def run() -> tuple[bool, bytes]:
        result: asyncio.Future[tuple[bool, bytes]] = asyncio.get_running_loop().create_future()
        lane = HttpLane("127.0.0.1", 1, lambda _, answered, reply: result.set_result((answered, reply)))
        lane.send(REQUEST)
        return await asyncio.wait_for(result, 20)

    answered, reason = asyncio.run(run())
    assert not answered
    assert b"connect" in reason.lower()
