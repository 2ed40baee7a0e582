"""What an entry's network can be written for: its files, Triton's backend, and who makes and runs them. No torch.

A target's `maker` is a module that fits `artifact.Maker`: it writes the network's files, and runs them for the parity
gate. It is named, not imported: it may need a library that is not installed, and torch, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trireme_export.errors import CheckpointRefused
from trireme_export.kinds import PRECISIONS, ArtifactKind, Precision, TargetName
from trireme_export.steps import EntrySteps, Step

_MAX_WINDOWS = "max_windows"  # of the stages that tokenize


@dataclass(frozen=True, kw_only=True)
class Target:
    """A kind of artifact. `parameters` are those of the network's step that its backend has a use for."""

    backend: str  # as config.pbtxt names it
    files: tuple[str, ...]  # in the network's version folder, besides the manifest
    maker: str  # the module that writes and runs them
    making: str  # what the terminal shows meanwhile
    precisions: tuple[Precision, ...] = ("fp32",)
    refusals: Mapping[Precision, str] = field(default_factory=dict)  # why there is no other, and what to do
    parameters: frozenset[str] | None = None  # None: all
    further_parameters: Mapping[str, str] = field(default_factory=dict)
    batches: bool = True  # False: max_batch_size 0, the batch is the first dimension of every tensor
    gpu_accelerator: str | None = None
    longest_row: int | None = None  # tokens of all windows of a text, unless one window has more; None: any

    def serve(self, steps: EntrySteps) -> EntrySteps:
        """The steps of an entry, with the network as this target's backend takes it."""
        before, network, after = steps.steps
        return replace(steps, steps=(self._bounded(before), self._network(network), after))

    def _bounded(self, step: Step) -> Step:
        """The preprocessing, which refuses a text of more windows than fit into a row."""
        if self.longest_row is None or _MAX_WINDOWS not in step.parameters:
            return step
        fitting = max(1, self.longest_row // int(step.parameters["max_length"]))
        bounded = str(min(fitting, int(step.parameters[_MAX_WINDOWS])))
        return replace(step, parameters={**step.parameters, _MAX_WINDOWS: bounded})

    def _network(self, step: Step) -> Step:
        kept = {
            key: value for key, value in step.parameters.items() if self.parameters is None or key in self.parameters
        }
        return replace(
            step,
            backend=self.backend,
            parameters={**kept, **self.further_parameters},
            batches=self.batches,
            gpu_accelerator=self.gpu_accelerator,
        )


TARGETS: Mapping[TargetName, Target] = {
    "onnx": Target(
        backend="onnxruntime",
        files=("model.onnx",),
        maker="trireme_export.onnx_artifact",
        making="convert to ONNX",
        precisions=("fp32", "fp16", "int8"),
        refusals={
            "bf16": "ONNX Runtime computes no bf16 on CPUs, so it could be neither checked nor served there: take --to "
            "openvino, or fp16; an fp32 network is computed in bf16 where its config says trireme.precision = bf16"
        },
        gpu_accelerator="cuda",
    ),
    # The official backend fixes the batch of a model with max_batch_size N to exactly N, so only full dims are of use.
    "openvino": Target(
        backend="openvino",
        files=("model.xml", "model.bin"),
        maker="trireme_export.openvino_artifact",
        making="convert to OpenVINO IR",
        precisions=PRECISIONS,
        parameters=frozenset({"trireme.heartbeat"}),
        batches=False,
        longest_row=8192,  # the memory of the attention grows with its square
    ),
    "aoti": Target(
        backend="aoti",
        files=("model.pt2",),
        maker="trireme_export.aoti_artifact",
        making="compile with AOTInductor",
        parameters=frozenset(
            {"trireme.segments", "trireme.segment_tokens", "trireme.segment_outputs", "trireme.heartbeat"}
        ),
    ),
    # Its plans are built for a longest row; a text whose windows need more is refused by the preprocessing.
    "tensorrt": Target(
        backend="tensorrt",
        files=("model.plan", "layers.txt", "model.onnx"),
        maker="trireme_export.tensorrt_artifact",
        making="build the TensorRT plan",
        precisions=("fp32", "fp16", "int8"),
        refusals={"bf16": "its graph is compared by ONNX Runtime, which computes no bf16 on CPUs; take fp16"},
        parameters=frozenset(),
        longest_row=2048,
    ),
}


def target_of(kind: ArtifactKind) -> Target:
    """The target that was asked for.

    Raises:
        CheckpointRefused: it has no such precision.
    """
    target = TARGETS[kind.target]
    if kind.precision not in target.precisions:
        why = target.refusals.get(kind.precision, f"it has {', '.join(target.precisions)}")
        raise CheckpointRefused(f"--to {kind.target} has no --precision {kind.precision}: {why}")
    return target
