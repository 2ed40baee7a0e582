"""Ways to a server that carry one request at a time. Written for speed: on a small machine the load generator and the
server share the cores, so that every microsecond spent here is taken from what is measured.

A lane is given the bytes of a request, and calls back with the bytes of the reply. It parses no more of a reply than
its end and whether it is an answer.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import grpc
import grpc.aio

from trireme_bench.wire import Encoding

Replied = Callable[["Lane", bool, bytes], None]  # the lane, whether it was answered, the reply or why there is none
PAUSE_S = 0.1  # after a failure: a server that is down shall not be hammered


class Lane(Protocol):
    def send(self, request: bytes) -> None:
        """May be called again when the reply of the last request has been called back."""


@dataclass(frozen=True)
class Server:
    """Where to send requests, in which form, and whose CPU time to watch (None: not on this machine)."""

    host: str
    port: int
    encoding: Encoding
    pid: int | None


@asynccontextmanager
async def open_lanes(server: Server, count: int, replied: Replied) -> AsyncIterator[list[Lane]]:
    """So many lanes: an HTTP connection each, or calls on one gRPC channel."""
    if server.encoding == "grpc":
        async with grpc.aio.insecure_channel(f"{server.host}:{server.port}") as channel:
            yield [GrpcLane(channel, replied) for _ in range(count)]
        return
    lanes = [HttpLane(server.host, server.port, replied) for _ in range(count)]
    try:
        await asyncio.gather(*(lane.connect() for lane in lanes))
        yield list(lanes)
    finally:
        for lane in lanes:
            lane.close()


class HttpLane(asyncio.Protocol):
    """A keep-alive connection. Replies must carry a Content-Length, as Triton's do. It opens anew if it was closed."""

    def __init__(self, host: str, port: int, replied: Replied) -> None:
        self._address = host, port
        self._replied = replied
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None  # a reference: the loop itself keeps none
        self._waiting = False
        self._received = b""
        self._expected = 0  # bytes of the whole reply; 0: not known yet

    async def connect(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, *self._address)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes) -> None:
        self._waiting = True
        if self._transport is None:
            self._task = asyncio.ensure_future(self._send_anew(request))
        else:
            self._transport.write(request)

    async def _send_anew(self, request: bytes) -> None:
        try:
            await self.connect()
        except OSError as error:
            await asyncio.sleep(PAUSE_S)
            self._finish(False, str(error).encode())
        else:
            self.send(request)

    def data_received(self, data: bytes) -> None:
        if self._received:
            data = self._received + data
        if not self._expected:
            head = data.find(b"\r\n\r\n")
            if head < 0:
                self._received = data
                return
            self._expected = head + 4 + _content_length(data[:head])
        if len(data) < self._expected:
            self._received = data
        else:
            self._finish(data.startswith(b"HTTP/1.1 200"), data)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._waiting:
            self._finish(False, f"connection lost: {error or 'closed by the server'}".encode())

    def _finish(self, answered: bool, reply: bytes) -> None:
        self._waiting, self._received, self._expected = False, b"", 0
        self._replied(self, answered, reply)

    def close(self) -> None:
        self._waiting = False
        if self._transport:
            self._transport.close()


def _content_length(head: bytes) -> int:
    at = head.lower().find(b"\r\ncontent-length:")
    if at < 0:
        raise ValueError(f"a reply without Content-Length: {head[:200]!r}")
    return int(head[at + 17 :].split(b"\r\n", 1)[0])


class GrpcLane:
    """Calls on a shared channel, with messages that are bytes on both sides."""

    def __init__(self, channel: grpc.aio.Channel, replied: Replied) -> None:
        self._infer: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        self._replied = replied
        self._call: asyncio.Task[None] | None = None  # a reference: the loop itself keeps none

    def send(self, request: bytes) -> None:
        self._call = asyncio.ensure_future(self._ask(request))

    async def _ask(self, request: bytes) -> None:
        try:
            reply = await self._infer(request)
        except grpc.aio.AioRpcError as error:
            await asyncio.sleep(PAUSE_S)
            self._replied(self, False, f"{error.code().name}: {error.details()}".encode())
        else:
            self._replied(self, True, reply)
