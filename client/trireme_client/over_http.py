"""Calls over HTTP: the one place that touches `tritonclient.http`, the libraries below it and their errors."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent
import tritonclient.http
from geventhttpclient.response import HTTPParseError
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

# Triton uses 400, 404, 500, 501 and 503; the others come from a balancer or proxy on the way.
_ERRORS: dict[str, type[TriremeError]] = {
    "400": InvalidInput,
    "404": ModelNotFound,
    "408": DeadlineExceeded,
    "413": InvalidInput,
    "429": ServerUnavailable,
    "502": ServerUnavailable,
    "503": ServerUnavailable,
    "504": DeadlineExceeded,
}
_NO_LIMIT_S = 1e6  # both libraries have timeouts of their own; ours, given with each call, is to act first


class HttpWire:
    def connect(self, address: str) -> Connection:
        return _HttpConnection(address)

    def connect_async(self, address: str) -> AsyncConnection:
        return _AsyncHttpConnection(address)


class _HttpConnection:
    """tritonclient's HTTP client runs on gevent, so all of a connection happens on the thread that opened it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = tritonclient.http.InferenceServerClient(
            address, network_timeout=_NO_LIMIT_S, connection_timeout=_NO_LIMIT_S
        )

    def ask(self, call: Call, timeout_s: float) -> Any:
        with _translated(self._address, timeout_s, HTTPParseError), gevent.Timeout(timeout_s):
            return _read(call, _send(self._client, call, timeout_s))

    def close(self) -> None:
        self._client.close()
        gevent.get_hub().destroy(destroy_loop=True)


class _AsyncHttpConnection:
    def __init__(self, address: str) -> None:
        import aiohttp  # only here: it takes as long to import as all the rest
        import tritonclient.http.aio

        self._address = address
        self._unreachable = aiohttp.ClientError
        self._client = tritonclient.http.aio.InferenceServerClient(address, conn_timeout=_NO_LIMIT_S)

    async def ask(self, call: Call, timeout_s: float) -> Any:
        with _translated(self._address, timeout_s, self._unreachable):
            return _read(call, await asyncio.wait_for(_send(self._client, call, timeout_s), timeout_s))

    async def close(self) -> None:
        await self._client.close()


def _send(client: Any, call: Call, timeout_s: float) -> Any:
    """The client's answer, or with the asynchronous client a promise of it; their methods have the same names.

    Triton does not see an HTTP client leave. All it gets to know of the timeout is the request's `timeout`, which acts
    where the model's queue policy has `allow_timeout_override` and a larger `default_timeout_microseconds`.
    """
    match call:
        case Infer():
            inputs = [
                tritonclient.http.InferInput(name, list(data.shape), "BYTES").set_data_from_numpy(data)
                for name, data in call.inputs.items()
            ]
            outputs = [tritonclient.http.InferRequestedOutput(name) for name in call.outputs]
            return client.infer(call.model, inputs, outputs=outputs, timeout=int(timeout_s * 1e6))
        case Describe():
            return client.get_model_metadata(call.model)
        case MaxBatchSize():
            return client.get_model_config(call.model)
        case IsLive():
            return client.is_server_live()
        case IsReady():
            return client.is_server_ready()
        case _:
            return client.get_model_repository_index()


def _read(call: Call, answer: Any) -> Any:
    match call:
        case Infer():
            return {name: answer.as_numpy(name) for name in call.outputs}
        case Describe():
            return ModelMetadata(
                answer["name"],
                tuple(answer["versions"]),
                answer["platform"],
                tuple(map(_tensor, answer["inputs"])),
                tuple(map(_tensor, answer["outputs"])),
                max_batch_size=0,
            )
        case MaxBatchSize():
            return int(answer["max_batch_size"])
        case IsLive() | IsReady():
            return bool(answer)
        case _:
            return [_state(model) for model in answer if not is_launchers_own(model["name"])]


def _tensor(tensor: dict[str, Any]) -> TensorMetadata:
    return TensorMetadata(tensor["name"], tensor["datatype"], tuple(tensor["shape"]))


def _state(model: dict[str, str]) -> ModelState:
    """A model that was never loaded has neither a version nor a state."""
    return ModelState(model["name"], model.get("version", ""), model.get("state", ""), model.get("reason", ""))


@contextmanager
def _translated(address: str, timeout_s: float, connection_error: type[Exception]) -> Iterator[None]:
    try:
        yield
    except InferenceServerException as error:
        raise _translate(error) from None
    except (asyncio.TimeoutError, gevent.Timeout):  # before OSError, which is a base class of the first
        raise DeadlineExceeded(f"no answer within {timeout_s:.3g} s") from None
    except (OSError, connection_error) as error:
        reason = f"{address}: {error or type(error).__name__}; is a server there, and this its HTTP port?"
        raise ServerUnavailable(reason) from None


def _translate(error: InferenceServerException) -> TriremeError:
    if error.debug_details() is not None:  # not Triton's JSON: an error page of something in between
        return _ERRORS.get(error.status(), ServerError)(f"HTTP status {error.status()}")
    message = plain(error.message())
    if is_queue_timeout(message):
        return DeadlineExceeded(message)
    if is_reloading(message):
        return ServerUnavailable(message)
    return _ERRORS.get(error.status(), ServerError)(message)
