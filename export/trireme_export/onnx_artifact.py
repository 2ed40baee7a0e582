"""The target `onnx`: one file, which ONNX Runtime and OpenVINO must both run alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_ir as ir

from trireme_export.artifact import Made
from trireme_export.assembly import Assembly
from trireme_export.errors import CheckpointRefused
from trireme_export.half_graph import Half, Halved, halve
from trireme_export.int8_graph import channel_axes, quantize
from trireme_export.kinds import ArtifactKind
from trireme_export.runtimes import Runtime, installed_runtimes
from trireme_export.to_onnx import MAX_INLINE_BYTES, write_onnx
from trireme_export.value_ranges import activations_of, ranges_of

MODEL = "model.onnx"
WEIGHTS = "model.onnx.data"  # beside it, where a file cannot hold them
LEAST_SHARE = 0.5  # of the weights in 16 bits, below which the precision would be one in name only
SHOWN = 5
SIGNED = frozenset({"tensorrt"})  # takes no unsigned bytes


def write(assembly: Assembly, kind: ArtifactKind, folder: Path) -> Made:
    """The graph with its weights, in the precision that was asked for; inputs and outputs are the same in all.

    Raises:
        CheckpointRefused: too little of the network can be in that precision; the message names the nodes.
    """
    path = folder / MODEL
    facts = write_onnx(assembly, path)
    if kind.precision == "fp32":
        return Made(facts=facts)
    notes = _in_int8(assembly, kind, path) if kind.precision == "int8" else _in_half(assembly, kind.precision, path)
    return Made(facts=facts, notes=notes)


def runtimes(folder: Path) -> Iterator[Runtime]:
    """ONNX Runtime, and OpenVINO where it is installed."""
    yield from installed_runtimes(folder / MODEL)


def _in_half(assembly: Assembly, precision: Half, path: Path) -> tuple[str, ...]:
    ranges = ranges_of(path, (case.inputs for case in assembly.parity_cases()))
    model = ir.load(path)
    halved = halve(model, precision, ranges)
    if halved.share < LEAST_SHARE:
        raise CheckpointRefused(_refusal(precision, halved))
    _replace(model, path)
    kept = f"; in fp32 stay {_named(halved)}, beyond the range of {precision}" if halved.kept else ""
    return (f"{halved.share:.1%} of the weights are in {precision}{kept}",)


def _in_int8(assembly: Assembly, kind: ArtifactKind, path: Path) -> tuple[str, ...]:
    """Ranges are those of the samples and of the parity cases: what lies beyond them is cut off."""
    samples = [*assembly.samples(kind.calibration)]
    model = ir.load(path)
    axes = channel_axes(model.graph)
    wider = activations_of(path, axes, (case.inputs for case in assembly.parity_cases()))
    seen = activations_of(path, axes, samples)
    activations = {name: activation.widened(wider[name]) for name, activation in seen.items()}
    count = quantize(model, activations, signed=kind.target in SIGNED)
    _replace(model, path)
    given = f"{len(samples)} samples of --calibration" if kind.calibration else f"{len(samples)} built-in samples"
    return (f"{count} products with weights are in int8, by {given}",)


def _replace(model: ir.Model, path: Path) -> None:
    """Write `model` over the file that it was read from, and check that every type in it fits."""
    written = path.with_name("written.onnx")
    large = sum(
        value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None
    )
    ir.save(model, written, external_data=WEIGHTS if large > MAX_INLINE_BYTES else None)
    written.replace(path)
    onnx.checker.check_model(str(path), full_check=True)


def _refusal(precision: Half, halved: Halved) -> str:
    if halved.kept:
        return (
            f"--precision {precision}: only {halved.share:.0%} of the weights can be in it, since numbers beyond its "
            f"range are in {_named(halved)}; take bf16, which has the range of fp32, int8 or fp32"
        )
    return (
        f"--precision {precision}: only {halved.share:.0%} of the weights can be in it: ONNX has {precision} for "
        "matrix products, and for convolutions from opset 22 alone, which older servers do not load; take fp16, int8 "
        "or fp32"
    )


def _named(halved: Halved) -> str:
    more = len(halved.kept) - SHOWN
    return ", ".join(map(str, halved.kept[:SHOWN])) + (f" and {more} more" if more > 0 else "")
