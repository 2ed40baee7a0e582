"""What a graph takes and gives, and what runs it: the seam between this package and the two runtimes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from trireme_triton.tensors import Inputs, Outputs

ANY = -1  # a dimension that differs from run to run


class RunFailed(Exception):
    """The runtime could not compute these inputs. The text says why, mostly in the runtime's own words."""


@dataclass(frozen=True)
class GraphTensor:
    """An input or output as the graph declares it."""

    name: str
    data_type: str  # Triton's name, "TYPE_FP32"; "TYPE_INVALID" when Triton has none
    shape: tuple[int, ...]  # with the batch dimension; ANY where it is not fixed


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A graph's face."""

    inputs: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]
    overridable: tuple[GraphTensor, ...] = ()  # initializers that a request may replace


Stream = Callable[[Inputs], Outputs]  # one run at a time; raises RunFailed


class Runtime(Protocol):
    """A graph that has been read."""

    @property
    def graph(self) -> Graph: ...

    def open_streams(self, count: int, threads_each: int) -> list[Stream]:
        """Streams that share one copy of the compiled weights and may run at the same time."""
        ...
