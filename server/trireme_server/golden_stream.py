"""Golden samples of a decoupled entry, which only answers over a gRPC stream. Loads tritonclient when it is used."""

from __future__ import annotations

import queue
from typing import Any

from trireme_server.golden import Answer
from trireme_server.manifest import GoldenSample, Tensor
from trireme_server.triton_api import TritonRefused

_TIMEOUT_S = 120.0


def ask_stream(address: str, entry: str, sample: GoldenSample) -> Answer:
    """The first answer to `sample` that holds tensors, from the gRPC endpoint at `address` (host:port).

    Waits for the end of the stream, since a stream that is left early keeps its model from being unloaded.

    Raises:
        TritonRefused: an error, or no answer in time.
    """
    from tritonclient import grpc

    answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
    client = grpc.InferenceServerClient(address)
    client.start_stream(lambda result, error: answers.put((result, error)))
    inputs = [_input(grpc, tensor) for tensor in sample.inputs]
    client.async_stream_infer(entry, inputs, enable_empty_final_response=True)
    answer: Answer = {}
    try:
        while True:
            result, error = answers.get(timeout=_TIMEOUT_S)
            if error is not None:
                raise TritonRefused(str(error))
            answer = answer or _answer(result)
            if result.get_response().parameters["triton_final_response"].bool_param:
                return answer
    except queue.Empty:
        client.stop_stream(cancel_requests=True)  # else closing waits for the answer as well
        raise TritonRefused(f"no end of the answer within {_TIMEOUT_S:g} s") from None
    finally:
        client.close()


def _input(grpc: Any, tensor: Tensor) -> Any:
    import numpy as np
    from tritonclient.utils import triton_to_np_dtype

    given = grpc.InferInput(tensor.name, list(tensor.shape), tensor.datatype)
    values = np.array(tensor.values, dtype=triton_to_np_dtype(tensor.datatype)).reshape(tensor.shape)
    given.set_data_from_numpy(values)
    return given


def _answer(result: Any) -> Answer:
    return {
        output.name: Tensor(
            output.name,
            output.datatype,
            tuple(output.shape),
            tuple(result.as_numpy(output.name).reshape(-1).tolist()),
        )
        for output in result.get_response().outputs
    }
