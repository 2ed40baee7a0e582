"""What a checkpoint may be asked to become: the target and the precision of its network. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

TargetName = Literal["onnx", "openvino", "tensorrt", "aoti"]
Precision = Literal["fp32", "bf16", "fp16", "int8"]
TARGET_NAMES: tuple[TargetName, ...] = get_args(TargetName)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True, kw_only=True)
class ArtifactKind:
    """What a network is written as."""

    target: TargetName = "onnx"
    precision: Precision = "fp32"  # of the weights and the arithmetic, as the network's file states them
    calibration: tuple[Path, ...] = ()  # files that int8 takes its ranges from; none: our own samples
    compute_capabilities: tuple[str, ...] = ()  # of GPUs that TensorRT-RTX builds for ("8.9"); none: the GPU here


ONNX_FP32 = ArtifactKind()
