"""Which function assembles which task. A new task is a dataclass of the catalogue, a module, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from trireme_export.catalogue import ImageClassification, OwnModel, SentenceEmbedding, Task, TextClassification
from trireme_export.checkpoint import Checkpoint
from trireme_export.kinds import ArtifactKind
from trireme_export.steps import EntrySteps
from trireme_export.targets import target_of

if TYPE_CHECKING:
    from trireme_export.assembly import Assembly

# By name: they import torch, which takes seconds.
ASSEMBLERS: dict[type[Task], str] = {
    SentenceEmbedding: "trireme_export.text_entry:assemble_embedding",
    TextClassification: "trireme_export.text_entry:assemble_classification",
    OwnModel: "trireme_export.own_model_entry:assemble_own_model",
    ImageClassification: "trireme_export.image_entry:assemble_image_classification",
}


def assemble(task: Task, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Read a checkpoint for its task.

    Raises:
        CheckpointRefused: it is not what the task needs.
    """
    module, _, function = ASSEMBLERS[type(task)].partition(":")
    assembly: Assembly = getattr(import_module(module), function)(task, checkpoint, cache)
    return assembly


def written_as(kind: ArtifactKind, assembly: Assembly) -> Assembly:
    """The assembly as the target's backend serves it.

    Raises:
        CheckpointRefused: the target has no such precision.
    """
    target = target_of(kind)
    network = f"{kind.precision}, as {kind.target} for the backend {target.backend}"
    steps = target.serve(assembly.steps)
    ranges = _ranges(assembly, steps)
    decisions = {**assembly.decisions, "network": network}
    if ranges != assembly.ranges:
        _, longest = ranges["length"]
        decisions["longest text"] = f"{longest:,} tokens, which this backend computes as one row"
    return replace(assembly, steps=steps, ranges=ranges, decisions=decisions)


def _ranges(assembly: Assembly, steps: EntrySteps) -> Mapping[str, tuple[int, int]]:
    """A row is no longer than the windows that the preprocessing makes of a text."""
    parameters = steps.steps[0].parameters
    if "length" not in assembly.ranges or "max_windows" not in parameters:
        return assembly.ranges
    return {**assembly.ranges, "length": (1, int(parameters["max_length"]) * int(parameters["max_windows"]))}
