"""Triton's face of the language-model engine: decoupled, typed tensors, one engine per instance."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from trireme_llm.engine_thread import EngineThread
from trireme_llm.errors import InvalidRequest
from trireme_llm.load import load_engine
from trireme_llm.parameters import config_from
from trireme_llm.tensors import cancelled_id, request_from
from trireme_llm_triton import (
    FINAL,
    ResponseSink,
    TritonRequest,
    TritonSender,
    TritonTelemetry,
    error_response,
    input_arrays,
)


class TritonPythonModel:
    """Requests go to the engine's thread and are answered from there; `execute` waits for nothing."""

    def initialize(self, args: dict[str, str]) -> None:
        folder = Path(args["model_repository"]) / args["model_version"]
        parameters = json.loads(args["model_config"]).get("parameters", {})
        config = config_from({name: value["string_value"] for name, value in parameters.items()}, folder)
        self._sinks: dict[int, ResponseSink] = {}  # by generation id; an entry goes with its last response
        self._ids = itertools.count(1)
        self._engine = EngineThread(load_engine(config, TritonTelemetry(args["model_name"])))

    def execute(self, requests: list[TritonRequest]) -> None:
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._handle(request, sender)
            except InvalidRequest as error:
                sender.send(error_response(error), flags=FINAL)

    def finalize(self) -> None:
        self._engine.close()

    def _handle(self, request: TritonRequest, sender: TritonSender) -> None:
        arrays = input_arrays(request)
        to_cancel = cancelled_id(arrays)
        if to_cancel is not None:
            if to_cancel in self._sinks:
                self._sinks[to_cancel].cancel()
            sender.send(flags=FINAL)
            return
        generation_id = next(self._ids)
        sink = ResponseSink(sender, generation_id, on_end=lambda: self._sinks.pop(generation_id, None))
        asked = request_from(arrays, sink)
        sink.begin(len(asked.prompt), asked.sampling.n)
        self._sinks[generation_id] = sink
        self._engine.submit(asked)
