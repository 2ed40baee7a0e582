#!/usr/bin/env python3
"""Writes the peer of `embed`: the tuned three-step ensemble that one writes by hand, with nothing that is not speed.

Tokenise, network, normalise as Python models without checks, windows, metrics or supervision; the network is the one
that `embed` serves, on OpenVINO in bf16, two processes of one thread each, batched by Triton and packed. Serve both
and load them in turns:

    python tests/bench/plain_ensemble.py model_repository /tmp/plain
    trireme serve --repository /tmp/plain --http-port 9000 --grpc-port 9001 --metrics-port 9002 --health-port 9003
    trireme serve --models embed
    python tests/bench/against_peer.py --peer-model plain --peer-port 9000
"""

import shutil
import sys
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

SOURCES = Path(__file__).with_suffix("")
WIDTH = 384
TENSORS = {
    "text": (pb.TYPE_STRING, [1]),
    "input_ids": (pb.TYPE_INT64, [-1]),
    "vector": (pb.TYPE_FP32, [WIDTH]),
    "embedding": (pb.TYPE_FP32, [WIDTH]),
}
STEPS = {"plain_preprocess": ("text", "input_ids"), "plain_network": ("input_ids", "vector")}
STEPS["plain_postprocess"] = ("vector", "embedding")


def step_config(name: str, given: str, result: str) -> pb.ModelConfig:
    config = model_config(name, given, result)
    config.backend = "python"
    config.dynamic_batching.SetInParent()
    config.input[0].allow_ragged_batch = given == "input_ids"
    config.instance_group.add(kind=pb.ModelInstanceGroup.KIND_CPU, count=2 if name == "plain_network" else 1)
    return config


def ensemble_config() -> pb.ModelConfig:
    config = model_config("plain", "text", "embedding")
    config.platform = "ensemble"
    for name, (given, result) in STEPS.items():
        step = config.ensemble_scheduling.step.add(model_name=name, model_version=-1)
        step.input_map[given] = given
        step.output_map[result] = result
    return config


def model_config(name: str, given: str, result: str) -> pb.ModelConfig:
    config = pb.ModelConfig(name=name, max_batch_size=64)
    for tensor, part in ((given, config.input), (result, config.output)):
        data_type, dims = TENSORS[tensor]
        part.add(name=tensor, data_type=data_type, dims=dims)
    return config


def write(ours: Path, target: Path) -> None:
    """`ours` is a repository with `embed`; `target` must not exist."""
    for config in (ensemble_config(), *(step_config(name, *tensors) for name, tensors in STEPS.items())):
        version = target / config.name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(text_format.MessageToString(config))
        if config.name in STEPS:
            shutil.copy(SOURCES / f"{config.name}.py", version / "model.py")
    shutil.copy(ours / "embed_preprocess" / "1" / "tokenizer.json", target / "plain_preprocess")
    (target / "plain_network" / "model.onnx").symlink_to((ours / "embed_network" / "1" / "model.onnx").resolve())


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
