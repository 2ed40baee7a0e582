"""The target `tensorrt`: a plan for the backend of that name, and the graph it was built from.

Nothing runs a plan here. What is compared with the original is the graph; the terminal and the manifest say so.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from trireme_export import onnx_artifact
from trireme_export.artifact import Made
from trireme_export.assembly import Assembly
from trireme_export.errors import CheckpointRefused, ExportError
from trireme_export.kinds import ArtifactKind
from trireme_export.runtimes import Runtime
from trireme_export.source_lines import source_lines
from trireme_export.tensorrt_graph import adapt_to_tensorrt
from trireme_export.to_tensorrt import Builder, GraphNotTaken, Plan, Shapes

PLAN, LAYERS = "model.plan", "layers.txt"
_USUAL = {"batch": 8, "length": 128}  # what a plan is tuned for, if it allows so much
_UNPROVEN = (
    "the plan has not been run: its numbers are unproven until `trireme verify` has asked it on the GPU; "
    "what is compared with the original is the graph that it was built from"
)


def write(assembly: Assembly, kind: ArtifactKind, folder: Path) -> Made:
    """`model.plan`, a line for each of its layers in `layers.txt`, and beside it the graph in `model.onnx`.

    Raises:
        ExportError: the library is not installed, or cannot build the plan.
        CheckpointRefused: it has nothing for some of the graph's nodes, which are named with their source lines.
    """
    builder = Builder(kind.compute_capabilities)
    capabilities = kind.compute_capabilities or _capabilities_here()
    made = onnx_artifact.write(assembly, kind, folder)
    adapt_to_tensorrt(folder / onnx_artifact.MODEL)
    profile = _profile(assembly)
    plan = _build(builder, assembly, folder / onnx_artifact.MODEL, profile, tf32=kind.precision != "fp32")
    (folder / PLAN).write_bytes(plan.content)
    (folder / LAYERS).write_text("".join(f"{line}\n" for line in plan.layers), encoding="utf-8")
    facts = {
        "flavour": builder.flavour,
        "version": builder.version,
        "compute_capabilities": capabilities,
        "profiles": [{name: vars(shapes) for name, shapes in profile.items()}],
        "layers": len(plan.layers),
        "plan_was_run": False,
    }
    built = f"{builder.name} for compute capability {', '.join(capabilities)}: {len(plan.layers)} layers"
    return Made(facts={**made.facts, "tensorrt": facts}, notes=(*made.notes, built, _UNPROVEN))


def runtimes(folder: Path) -> Iterator[Runtime]:
    """What runs the graph."""
    yield from map(_OfTheGraph, onnx_artifact.runtimes(folder))


class _OfTheGraph:
    def __init__(self, runtime: Runtime) -> None:
        self.name = f"{runtime.name} (the graph, not the plan)"
        self.run = runtime.run


def _build(builder: Builder, assembly: Assembly, graph: Path, profile: Mapping[str, Shapes], *, tf32: bool) -> Plan:
    try:
        return builder.build(graph, profile, tf32=tf32)
    except GraphNotTaken as refused:
        lines = source_lines(assembly)
        nodes = [f"{node.operator} ({node.name}), from {lines.get(node.name, '?')}" for node in refused.nodes]
        found = "\n  ".join(["these operators of the network:", *nodes]) if nodes else f"this network: {refused}"
        raise CheckpointRefused(f"{builder.name} has nothing for {found}\nUse --to onnx, which runs them.") from refused


def _profile(assembly: Assembly) -> dict[str, Shapes]:
    """From a batch of one to the largest, of every input; what has one size keeps it."""
    profile = {}
    for name, tensor in assembly.example.items():
        bounds = [
            (assembly.ranges[assembly.dynamic[name][place]], _USUAL[assembly.dynamic[name][place]])
            if place in assembly.dynamic[name]
            else ((size, size), size)
            for place, size in enumerate(tensor.shape)
        ]
        profile[name] = Shapes(
            least=tuple(least for (least, _), _ in bounds),
            usual=tuple(min(usual, most) for (_, most), usual in bounds),
            most=tuple(most for (_, most), _ in bounds),
        )
    return profile


def _capabilities_here() -> tuple[str, ...]:
    """Of the GPU that TensorRT has built for.

    Raises:
        ExportError: nvidia-smi does not say.
    """
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ExportError(f"the GPU's compute capability cannot be read: {error}; is nvidia-smi there?") from error
    found = result.stdout.split()[:1]
    if not found:
        raise ExportError("the GPU's compute capability cannot be read: nvidia-smi names none")
    return tuple(found)
