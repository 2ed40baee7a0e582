"""The target `aoti`: machine code that AOTInductor made of the network, for the backend of that name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch

from trireme_export.artifact import Made
from trireme_export.assembly import Assembly
from trireme_export.kinds import ArtifactKind
from trireme_export.runtimes import Array, Runtime
from trireme_export.to_aoti import write_package

MODEL = "model.pt2"


class AotInductor:
    """A package on this machine's CPU."""

    def __init__(self, path: Path) -> None:
        self.name = f"aoti {torch.__version__.partition('+')[0]}"
        self._model = torch._inductor.aoti_load_package(str(path))

    def run(self, inputs: Mapping[str, Array]) -> Array:
        """The output. The code looks at no strides; behind the output it counts lookups outside their tables."""
        tensors = [torch.from_numpy(np.ascontiguousarray(values)) for values in inputs.values()]
        output, misses = self._model(*tensors)
        assert not misses.any(), "a parity case has ids that the model knows"
        return output.numpy()  # type: ignore[no-any-return]


def write(assembly: Assembly, kind: ArtifactKind, folder: Path) -> Made:  # noqa: ARG001 - there is one precision
    """The package."""
    facts = write_package(assembly, folder / MODEL)
    note = "the package runs where torch and the CPU are as here; elsewhere `trireme serve` refuses it"
    return Made(facts=facts, notes=(note,))


def runtimes(folder: Path) -> Iterator[Runtime]:
    """PyTorch alone reads it."""
    yield AotInductor(folder / MODEL)
