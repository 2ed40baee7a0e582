"""What a task makes of a checkpoint, for the exporter to write, check and install. Knows no task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from trireme_export.steps import EntrySteps

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class ParityCase:
    """Inputs of the graph with what the PyTorch original makes of them."""

    name: str
    inputs: Mapping[str, Array]
    expected: Array
    is_real: bool = True  # False: random numbers, whose labels and ranks mean nothing


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far an artifact may be from the original, on every row of every case. None: that is not asked for."""

    max_abs: float
    min_cosine: float
    min_top1: float | None = None  # share of the rows whose best label is the original's, or as good by its own logits
    min_rank_correlation: float | None = None  # Spearman's, of scores, or of how alike each two vectors are

    def as_json(self) -> dict[str, float]:
        """As a manifest states it."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The largest of one or many cases; `min_cosine` over rows that are not zero. None: nobody asked."""

    max_abs: float
    min_cosine: float
    top1: float | None = None
    rank_correlation: float | None = None

    def within(self, tolerance: Tolerance) -> bool:
        """False for NaN too."""
        return (
            self.max_abs <= tolerance.max_abs
            and self.min_cosine >= tolerance.min_cosine
            and _reaches(self.top1, tolerance.min_top1)
            and _reaches(self.rank_correlation, tolerance.min_rank_correlation)
        )

    def as_json(self) -> dict[str, float]:
        """As a manifest states it."""
        return {name: value for name, value in asdict(self).items() if value is not None}


EXACT = Difference(max_abs=0, min_cosine=1)


def _reaches(value: float | None, least: float | None) -> bool:
    return value is None or least is None or value >= least


@dataclass(frozen=True, kw_only=True)
class GoldenTensor:
    """A tensor of a golden sample; `check` of an output is how an answer is compared with it."""

    name: str
    data_type: str  # as in KServe's protocol: BYTES, FP32, INT32
    values: Array
    check: Mapping[str, float | bool] | None = None


@dataclass(frozen=True, kw_only=True)
class GoldenSample:
    """A request to the whole entry, and the answer of the PyTorch original."""

    inputs: tuple[GoldenTensor, ...]
    outputs: tuple[GoldenTensor, ...]


@dataclass(frozen=True, kw_only=True)
class Alone:
    """A text or an image of a case, which the original computes by itself."""

    run: Callable[[], object]
    part: Callable[[Array, Array], Array | None]  # of a value of the graph, what stands for the original's own


@dataclass(frozen=True, kw_only=True)
class OriginalLayers:
    """The original's modules at work, and which of the network's are the same ones."""

    root: nn.Module
    twins: Mapping[str, str]  # the path of a module in the network to that in `root`, whose children are called alike
    each: Callable[[Mapping[str, Array]], Iterable[Alone]]  # of a case's inputs

    def name_in_original(self, path: str) -> str | None:
        """Of a module of the network; None: the original has none like it."""
        for twin, own in sorted(self.twins.items(), key=lambda both: len(both[0]), reverse=True):
            if path == twin or path.startswith(f"{twin}."):
                return f"{own}{path.removeprefix(twin)}".removeprefix(".") or None
        return None


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """Everything that the exporter needs to know about one entry."""

    task: str
    network: nn.Module
    example: Mapping[str, Tensor]  # inputs to trace the network with, in its order
    dynamic: Mapping[str, Mapping[int, str]]  # of each input: dimension to its name
    output: str
    ranges: Mapping[str, tuple[int, int]]  # what each named dimension may be when serving
    steps: EntrySteps
    files: Mapping[str, bytes]  # "<step suffix>/<file>" to content
    tolerance: Tolerance
    parity_cases: Callable[[], Iterable[ParityCase]]
    samples: Callable[[Sequence[Path]], Iterable[Mapping[str, Array]]]  # inputs made of a user's files, or of our own
    layers: OriginalLayers  # for the report of where an artifact leaves it
    golden_samples: Callable[[Difference], list[GoldenSample]]  # of the artifact from the original, as measured
    further_inputs: Mapping[str, str] = field(default_factory=dict)  # files besides the checkpoint, to sha256
    decisions: Mapping[str, str] = field(default_factory=dict)  # what was read from the checkpoint, for the terminal


def bytes_tensor(name: str, items: list[bytes], width: int = 1, **options: Any) -> GoldenTensor:
    """BYTES of shape (len(items) / width, width)."""
    values = np.array(items, np.object_).reshape(-1, width)
    return GoldenTensor(name=name, data_type="BYTES", values=values, **options)
