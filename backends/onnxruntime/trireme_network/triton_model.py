"""What the `model.py` of either backend has in common: Triton's calls, passed on to a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from trireme_triton.cold_start import ColdStart
from trireme_triton.metrics import ColdStartSeconds, ProgressMetrics, StageErrors
from trireme_triton.progress import Progress
from trireme_triton.tensors import Answer, Inputs, InvalidRequest, Request, answer_together

from trireme_network.auto_complete import Completion
from trireme_network.model_config import ModelConfig, read_model_config
from trireme_network.parameters import read_own


class Answering(Protocol):
    """A network, as Triton's face uses it."""

    def answer(self, requests: Sequence[Inputs]) -> list[Answer]: ...
    def report_to(self, progress: Progress) -> None: ...
    def close(self) -> None: ...


Load = Callable[[ModelConfig, Path, str, ColdStart], Answering]
Complete = Callable[[ModelConfig, Path], Completion | None]


class ServedNetwork:
    """One instance of a model."""

    def __init__(self, args: dict[str, str], cold_start: ColdStart, load: Load) -> None:
        config = read_model_config(json.loads(args["model_config"]))
        version = Path(args["model_repository"], args["model_version"])
        self._network = load(config, version, args["model_instance_kind"], cold_start)
        self._cold_start = ColdStartSeconds(args["model_name"], cold_start.seconds)
        self._errors = StageErrors(args["model_name"], "network")
        self._progress = ProgressMetrics(args["model_name"], promises=read_own(config.parameters).heartbeat)
        self._network.report_to(self._progress)

    def execute(self, requests: Sequence[Request]) -> list[object]:
        """One response per request; a request the network cannot compute gets an error and does not harm the others."""
        return answer_together(requests, self._answer)

    def close(self) -> None:
        """End the worker threads."""
        self._network.close()

    def _answer(self, batch: Sequence[Inputs]) -> Sequence[Answer]:
        answers = self._network.answer(batch)
        for answer in answers:
            if isinstance(answer, InvalidRequest):
                self._errors.count(answer.reason)
        return answers


def complete_config(config: Any, version: Path, complete: Complete) -> Any:
    """Triton's `ModelConfig` object with what it lacks."""
    completion = complete(read_model_config(config.as_dict()), version)
    if completion is None:
        return config
    config.set_max_batch_size(completion.max_batch_size)
    if completion.max_batch_size > 1 and "sequence_batching" not in config.as_dict():
        config.set_dynamic_batching()
    for entry in completion.inputs:
        config.add_input(entry)
    for entry in completion.outputs:
        config.add_output(entry)
    return config
