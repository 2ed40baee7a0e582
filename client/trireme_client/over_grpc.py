"""Calls over gRPC: the one place that touches `tritonclient.grpc`, its protobufs and its errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tritonclient.grpc
import tritonclient.grpc.aio
from tritonclient.utils import InferenceServerException

from trireme_client.calls import AsyncConnection, Call, Connection, Describe, Infer, IsLive, IsReady, MaxBatchSize
from trireme_client.errors import (
    DeadlineExceeded,
    InvalidInput,
    ModelNotFound,
    ServerError,
    ServerUnavailable,
    TriremeError,
)
from trireme_client.results import ModelMetadata, ModelState, TensorMetadata
from trireme_client.server_text import is_launchers_own, is_queue_timeout, is_reloading, plain

_ERRORS: dict[str, type[TriremeError]] = {
    "StatusCode.UNAVAILABLE": ServerUnavailable,
    "StatusCode.RESOURCE_EXHAUSTED": ServerUnavailable,
    "StatusCode.DEADLINE_EXCEEDED": DeadlineExceeded,
    "StatusCode.INVALID_ARGUMENT": InvalidInput,
    "StatusCode.NOT_FOUND": ModelNotFound,
}
_NOT_SPOKEN = "Socket closed"  # gRPC's words when it is answered in another protocol, or cut off
# Without the last two a channel waits up to two minutes before it tries to reach a server that is back.
_CHANNEL = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class GrpcWire:
    def connect(self, address: str) -> Connection:
        return _GrpcConnection(address)

    def connect_async(self, address: str) -> AsyncConnection:
        return _AsyncGrpcConnection(address)


class _GrpcConnection:
    def __init__(self, address: str) -> None:
        self._client = tritonclient.grpc.InferenceServerClient(address, channel_args=_CHANNEL)

    def ask(self, call: Call, timeout_s: float) -> Any:
        with _translated():
            return _read(call, _send(self._client, call, timeout_s))

    def close(self) -> None:
        self._client.close()


class _AsyncGrpcConnection:
    def __init__(self, address: str) -> None:
        self._client = tritonclient.grpc.aio.InferenceServerClient(address, channel_args=_CHANNEL)

    async def ask(self, call: Call, timeout_s: float) -> Any:
        with _translated():
            return _read(call, await _send(self._client, call, timeout_s))

    async def close(self) -> None:
        await self._client.close()


def _send(client: Any, call: Call, timeout_s: float) -> Any:
    """The client's answer, or with the asynchronous client a promise of it; their methods have the same names.

    The timeout goes out twice: as the deadline of the call, at which Triton drops a request that still waits in a
    dynamic batcher's queue, and as the request's `timeout`, which acts where the model's queue policy has
    `allow_timeout_override` and a larger `default_timeout_microseconds`.
    """
    match call:
        case Infer():
            inputs = [
                tritonclient.grpc.InferInput(name, list(data.shape), "BYTES").set_data_from_numpy(data)
                for name, data in call.inputs.items()
            ]
            outputs = [tritonclient.grpc.InferRequestedOutput(name) for name in call.outputs]
            deadline_us = int(timeout_s * 1e6)
            return client.infer(call.model, inputs, outputs=outputs, timeout=deadline_us, client_timeout=timeout_s)
        case Describe():
            return client.get_model_metadata(call.model, client_timeout=timeout_s)
        case MaxBatchSize():
            return client.get_model_config(call.model, client_timeout=timeout_s)
        case IsLive():
            return client.is_server_live(client_timeout=timeout_s)
        case IsReady():
            return client.is_server_ready(client_timeout=timeout_s)
        case _:
            return client.get_model_repository_index(client_timeout=timeout_s)


def _read(call: Call, answer: Any) -> Any:
    match call:
        case Infer():
            return {name: answer.as_numpy(name) for name in call.outputs}
        case Describe():
            inputs, outputs = map(_tensor, answer.inputs), map(_tensor, answer.outputs)
            return ModelMetadata(
                answer.name, tuple(answer.versions), answer.platform, tuple(inputs), tuple(outputs), max_batch_size=0
            )
        case MaxBatchSize():
            return int(answer.config.max_batch_size)
        case IsLive() | IsReady():
            return bool(answer)
        case _:
            states = (ModelState(model.name, model.version, model.state, model.reason) for model in answer.models)
            return [state for state in states if not is_launchers_own(state.name)]


def _tensor(tensor: Any) -> TensorMetadata:
    return TensorMetadata(tensor.name, tensor.datatype, tuple(tensor.shape))


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except InferenceServerException as error:
        message = plain(error.message())
        if is_queue_timeout(message):
            raise DeadlineExceeded(message) from None
        if is_reloading(message):
            raise ServerUnavailable(message) from None
        if message.endswith(_NOT_SPOKEN):
            raise ServerUnavailable(
                f"{message}: is this the gRPC port? HTTP's is asked with http://HOST:PORT"
            ) from None
        raise _ERRORS.get(error.status(), ServerError)(message) from None
