"""The questions a client asks a server, as values, with the type of each answer. Nothing is sent from here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tensors: TypeAlias = Mapping[str, NDArray[Any]]  # outputs by name; BYTES are object arrays of bytes


@dataclass(frozen=True)
class Infer:
    """Run a model on BYTES inputs. Answer: `Tensors`, exactly the outputs named."""

    model: str
    inputs: Mapping[str, NDArray[np.object_]]  # of bytes, in the shape the model takes
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Describe:
    """Answer: `ModelMetadata`, with a `max_batch_size` of 0; that is not part of the protocol's metadata."""

    model: str


@dataclass(frozen=True)
class MaxBatchSize:
    """Answer: int, from the model's configuration."""

    model: str


@dataclass(frozen=True)
class ListModels:
    """Answer: list of `ModelState`."""


@dataclass(frozen=True)
class IsLive:
    """Answer: bool."""


@dataclass(frozen=True)
class IsReady:
    """Answer: bool."""


Call: TypeAlias = Infer | Describe | MaxBatchSize | ListModels | IsLive | IsReady


class Connection(Protocol):
    """A way to a server that one thread uses. Raises `TriremeError` and nothing else the server could cause."""

    def ask(self, call: Call, timeout_s: float) -> Any: ...

    def close(self) -> None: ...


class AsyncConnection(Protocol):
    """The same for the tasks of one event loop."""

    async def ask(self, call: Call, timeout_s: float) -> Any: ...

    async def close(self) -> None: ...


class Wire(Protocol):
    """A protocol that can reach a server at `host:port`."""

    def connect(self, address: str) -> Connection: ...

    def connect_async(self, address: str) -> AsyncConnection: ...
