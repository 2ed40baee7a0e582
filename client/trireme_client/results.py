"""What a caller gets back. Plain frozen values; numpy arrays where there are many numbers."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Embedding:
    """One text as a vector.

    `windows` is the number of windows the text was split into; the vector combines them all.
    """

    vector: NDArray[np.float32]  # (dimensions,)
    windows: int


@dataclass(frozen=True, eq=False)
class Classification:
    """The label of one text. `scores` holds one score per label, in the model's own order of labels."""

    label: str
    score: float
    scores: NDArray[np.float32]  # (labels,)
    windows: int


@dataclass(frozen=True)
class Entity:
    """A labelled span of a text. `start` and `end` count the characters (code points) of the text as it was sent."""

    label: str
    score: float
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Extraction:
    """The entities of one text, in their order; no two of them overlap."""

    entities: tuple[Entity, ...]
    windows: int


@dataclass(frozen=True)
class Relevance:
    """How well a text fits a query, by the best of the windows that the text was split into."""

    score: float
    windows: int


@dataclass(frozen=True)
class Ranked:
    """A document of a ranking; `index` is its place in the caller's list."""

    index: int
    score: float
    windows: int


def ranked(relevances: Iterable[tuple[int, Relevance]], top_k: int | None = None) -> list[Ranked]:
    """The best first, of equals the one with the smaller index; at most `top_k`."""
    found = [Ranked(index, each.score, each.windows) for index, each in relevances]
    return sorted(found, key=lambda one: (-one.score, one.index))[:top_k]


@dataclass(frozen=True)
class ImageLabel:
    """One candidate label of an image."""

    label: str
    score: float


@dataclass(frozen=True)
class ImageClassification:
    """The best labels of one image, best first; as many as the model gives."""

    labels: tuple[ImageLabel, ...]

    @property
    def label(self) -> str:
        return self.labels[0].label

    @property
    def score(self) -> float:
        return self.labels[0].score


@dataclass(frozen=True, eq=False)
class ImageEmbedding:
    """One image as a vector, of length 1 if the entry was exported so."""

    vector: NDArray[np.float32]  # (dimensions,)


@dataclass(frozen=True)
class TensorMetadata:
    """An input or output of a model. `shape` has -1 for what varies; the first is the batch if the model has one."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ModelMetadata:
    """How to talk to a model. `max_batch_size` is 0 for a model whose tensors have no batch dimension."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]
    max_batch_size: int


@dataclass(frozen=True)
class ModelState:
    """A model of the server's repository. `state` is Triton's word, such as READY; `reason` says why it is not."""

    name: str
    version: str
    state: str
    reason: str


@dataclass(frozen=True)
class Health:
    """`live`: the server process answers. `ready`: it also takes inference requests for every model it loaded."""

    live: bool
    ready: bool
