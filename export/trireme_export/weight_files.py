"""Which files of a checkpoint hold its weights, and what their headers say of the tensors. Reads no tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.safetensors_header import read_header
from trireme_export.stored_tensor import StoredTensor

WHOLE = "model.safetensors"  # these two are the names that the libraries load
INDEX = f"{WHOLE}.index.json"


@dataclass(frozen=True, kw_only=True)
class WeightFiles:
    """`tensors` by the file that holds them, every name once."""

    tensors: Mapping[str, tuple[StoredTensor, ...]]

    @property
    def all_tensors(self) -> list[StoredTensor]:
        return [tensor for tensors in self.tensors.values() for tensor in tensors]


def read_safetensors(checkpoint: Checkpoint) -> WeightFiles:
    """Headers of the checkpoint's safetensors; no file at all if it has none.

    Raises:
        CheckpointRefused: a header is damaged, or the files contradict each other or their index.
    """
    if WHOLE in checkpoint.files and INDEX in checkpoint.files:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {WHOLE} and {INDEX} are both there: delete the one that is older, with its shards"
        )
    if INDEX in checkpoint.files:
        return _read_sharded(checkpoint)
    names = [name for name in checkpoint.files if name.endswith(".safetensors") and "/" not in name]
    if names and WHOLE not in names:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {', '.join(names)}, and neither {WHOLE} nor {INDEX}, which the library loads: "
            f"call the file with the weights {WHOLE}, or move what is not of this model elsewhere"
        )
    return WeightFiles(tensors={name: read_header(checkpoint.path(name)).tensors for name in names if name == WHOLE})


def _read_sharded(checkpoint: Checkpoint) -> WeightFiles:
    places = _weight_map(checkpoint)
    shards = {file: read_header(checkpoint.path(file)).tensors for file in sorted(set(places.values()))}
    held = [(tensor.name, file) for file, tensors in shards.items() for tensor in tensors]
    if problems := list(_contradictions(places, held)):
        more = f" and {len(problems) - 1} more like it" if len(problems) > 1 else ""
        raise CheckpointRefused(f"{checkpoint.uri}: {INDEX} and the files contradict each other: {problems[0]}{more}")
    return WeightFiles(tensors=shards)


def _weight_map(checkpoint: Checkpoint) -> dict[str, str]:
    match checkpoint.read_json(INDEX):
        case {"weight_map": dict(places)} if all(isinstance(file, str) for file in places.values()):
            return places
    raise CheckpointRefused(f"{checkpoint.uri}: {INDEX} has no weight_map of tensor names to file names")


def _contradictions(places: Mapping[str, str], held: list[tuple[str, str]]) -> Iterator[str]:
    """Between the index and the tensors that the files hold."""
    first: dict[str, str] = {}
    for name, file in held:
        if name in first:
            yield f"{name} is in {first[name]} and in {file}"
        elif name not in places:
            yield f"{name} of {file} is not in the index"
        first.setdefault(name, file)
    for name, file in places.items():
        if first.get(name) != file:
            yield f"{name} is not in {file}"
