"""Triton's face of the stages: loads the stage that the config names and passes it what is waiting."""

from trireme_triton.cold_start import ColdStart  # isort: skip  (first: its import ends the phase `process`)

import json
from collections.abc import Sequence
from pathlib import Path

from trireme_stages.registry import find_stage, load_stage, stage_name
from trireme_triton.metrics import ColdStartSeconds, ProgressMetrics, StageErrors
from trireme_triton.tensors import Answer, Inputs, InvalidRequest, Request, answer_together


class TritonPythonModel:
    """One instance of a model whose backend is `stages`."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the stage. What is wrong with the config is raised, and keeps the model from loading."""
        cold_start = ColdStart()
        self._progress = ProgressMetrics(args["model_name"], promises=True)
        config = json.loads(args["model_config"])
        with cold_start.phase("imports"):
            kind = find_stage(stage_name(config))
        with cold_start.phase("read"):
            version = Path(args["model_repository"], args["model_version"])
            self._stage = load_stage(kind, config, version, self._progress)
        self._cold_start = ColdStartSeconds(args["model_name"], cold_start.seconds)
        self._errors = StageErrors(args["model_name"], stage_name(config))

    def execute(self, requests: Sequence[Request]) -> list[object]:
        """One response per request; a request the stage refuses gets an error and does not harm the others."""
        return answer_together(requests, self._answer)

    def _answer(self, batch: Sequence[Inputs]) -> Sequence[Answer]:
        answers = self._stage.answer(batch)
        for answer in answers:
            if isinstance(answer, InvalidRequest):
                self._errors.count(answer.reason)
        return answers
