"""Golden samples over gRPC, which alone serves decoupled entries. Loads tritonclient when it is used."""

from __future__ import annotations

import queue
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trireme_server.golden import Answer
from trireme_server.manifest import GoldenSample, Tensor
from trireme_server.triton_api import TritonRefused, TritonUnreachable

_TIMEOUT_S = 120.0
_READY_S = 2.0
_NO_ANSWER = ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED")


def is_served(address: str, model: str) -> bool:
    """Whether the server at `address` (host:port) has `model` loaded.

    Raises:
        TritonUnreachable: nothing that speaks Triton's gRPC answers there.
    """
    with _client(address) as client:
        return bool(client.is_model_ready(model, client_timeout=_READY_S))


def ask_grpc(address: str, entry: str, sample: GoldenSample) -> Answer:
    """The one answer to `sample`.

    Raises:
        TritonRefused, TritonUnreachable: there is none.
    """
    from tritonclient import grpc

    outputs = [grpc.InferRequestedOutput(tensor.name) for tensor in sample.outputs]
    with _client(address) as client:
        result = client.infer(entry, _inputs(sample), outputs=outputs, client_timeout=_TIMEOUT_S)
        return _answer(result)


def ask_stream(address: str, entry: str, sample: GoldenSample) -> Answer:
    """The first answer to `sample` that holds tensors.

    Waits for the end of the stream, since a stream that is left early keeps its model from being unloaded.

    Raises:
        TritonRefused, TritonUnreachable: an error, or no answer in time.
    """
    answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
    with _client(address) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(entry, _inputs(sample), enable_empty_final_response=True)
        answer: Answer = {}
        try:
            while True:
                result, error = answers.get(timeout=_TIMEOUT_S)
                if error is not None:
                    raise error
                answer = answer or _answer(result)
                if result.get_response().parameters["triton_final_response"].bool_param:
                    return answer
        except queue.Empty:
            client.stop_stream(cancel_requests=True)  # else closing waits for the answer as well
            raise TritonRefused(f"no end of the answer within {_TIMEOUT_S:g} s") from None


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """A connection that ends with the block; errors of the library inside it become ours."""
    from tritonclient import grpc
    from tritonclient.utils import InferenceServerException

    client = grpc.InferenceServerClient(address)
    try:
        yield client
    except InferenceServerException as error:
        if error.status() in _NO_ANSWER:
            raise TritonUnreachable(str(error.message()).partition("\n")[0]) from error
        raise TritonRefused(str(error.message())) from error
    finally:
        client.close()


def _inputs(sample: GoldenSample) -> list[Any]:
    import numpy as np
    from tritonclient import grpc
    from tritonclient.utils import triton_to_np_dtype

    given = []
    for tensor in sample.inputs:
        values = np.array(tensor.values, dtype=triton_to_np_dtype(tensor.datatype)).reshape(tensor.shape)
        given.append(grpc.InferInput(tensor.name, list(tensor.shape), tensor.datatype))
        given[-1].set_data_from_numpy(values)
    return given


def _answer(result: Any) -> Answer:
    try:
        return {output.name: _tensor(result, output) for output in result.get_response().outputs}
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        raise TritonRefused(f"the answer cannot be read as Triton's: {error!r}") from error


def _tensor(result: Any, output: Any) -> Tensor:
    values = result.as_numpy(output.name).reshape(-1).tolist()
    return Tensor(output.name, output.datatype, tuple(output.shape), tuple(values))
