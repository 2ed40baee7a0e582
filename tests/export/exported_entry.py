"""An exported entry's three steps, run one after the other without a server."""

from pathlib import Path

import numpy as np
from google.protobuf import json_format, text_format
from trireme_export.runtimes import OnnxRuntime
from trireme_stages.registry import find_stage, load_stage, stage_name
from trireme_triton.progress import UNHEARD
from trireme_triton.tensors import InvalidRequest
from tritonclient.grpc import model_config_pb2


class ExportedEntry:
    """`parameters` are changed in the config of the postprocessing."""

    def __init__(self, repository: Path, name: str = "checkpoint", **parameters: str) -> None:
        self._pre = _stage(repository / f"{name}_preprocess", {})
        self._post = _stage(repository / f"{name}_postprocess", parameters)
        self._network = OnnxRuntime(repository / f"{name}_network" / "1" / "model.onnx")
        self._network_config = _config(repository / f"{name}_network")
        self._post_config = _config(repository / f"{name}_postprocess")

    def answer(self, **inputs: list[str]) -> dict[str, np.ndarray]:
        """All outputs of all steps, for one request whose inputs are texts.

        Raises:
            InvalidRequest: a step refuses it.
        """
        request = {name: np.array([[text.encode()] for text in texts], object) for name, texts in inputs.items()}
        values = request | _accepted(self._pre.answer([request]))
        (output,) = self._network_config["output"]
        wanted = [tensor["name"] for tensor in self._network_config["input"]]
        values[output["name"]] = self._network.run({name: values[name] for name in wanted})
        own = {tensor["name"]: values[tensor["name"]] for tensor in self._post_config["input"]}
        return values | _accepted(self._post.answer([own]))


def _accepted(answers):
    (answer,) = answers
    if isinstance(answer, InvalidRequest):
        raise answer
    return answer


def _config(folder: Path) -> dict:
    message = text_format.Parse((folder / "config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def _stage(folder: Path, changed: dict[str, str]):
    config = _config(folder)
    config["parameters"] |= {key: {"string_value": value} for key, value in changed.items()}
    return load_stage(find_stage(stage_name(config)), config, folder / "1", UNHEARD)
