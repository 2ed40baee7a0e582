"""Lookups by an index outside their table are counted in the graph, and look up another row instead.

What AOTInductor compiles checks an index in the middle of a parallel loop, where nothing can catch the error: it would
end the process that serves, for one request's bad id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from trireme_export.errors import CheckpointRefused

_UNGUARDED = frozenset(
    {"index", "index_select", "gather", "take", "embedding_bag", "_embedding_bag"}
)  # of any overload


@dataclass(frozen=True)
class Lookup:
    """A table, and the input whose values are its rows' numbers; None: they are computed."""

    rows: int
    input: str | None


@dataclass
class _Traced:
    """Outlives a trace, which sets back a module's own attributes."""

    lookups: tuple[Lookup, ...] = ()


class GuardedNetwork(nn.Module):
    """A network whose inputs come in the order of `names`.

    Returns its output and how many lookups missed each table, int64 (lookups,). `lookups` says which, after a trace.
    """

    def __init__(self, network: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.network = network
        self._traced = _Traced()
        self._names = tuple(names)

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """Of the last run, in the order of the counts."""
        return self._traced.lookups

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        named = dict(zip(self._names, inputs, strict=True))
        with _CountMisses(named) as counting:
            output = self.network(**named)
        self._traced.lookups = tuple(counting.lookups)
        if not counting.misses:
            return output, torch.zeros(0, dtype=torch.int64)
        return output, torch.stack(counting.misses)


class _CountMisses(TorchFunctionMode):
    """Every embedding, while it is active, whoever calls it."""

    def __init__(self, inputs: dict[str, Tensor]) -> None:
        super().__init__()
        self.lookups: list[Lookup] = []
        self.misses: list[Tensor] = []
        self._inputs = inputs

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is torch.nn.functional.embedding:
            return self._guarded(*args[:2])
        if func is torch.embedding:
            return self._guarded(args[1], args[0])
        return func(*args, **(kwargs or {}))

    def _guarded(self, indices: Tensor, table: Tensor) -> Tensor:
        rows = table.shape[0]
        name = next((name for name, values in self._inputs.items() if values is indices), None)
        self.lookups.append(Lookup(rows, name))
        self.misses.append(((indices < 0) | (indices >= rows)).sum())
        return torch.nn.functional.embedding(indices.clamp(0, rows - 1), table)


def check_all_guarded(program: torch.export.ExportedProgram) -> None:
    """Nothing else may look up by what a request holds.

    Raises:
        CheckpointRefused: names the node, and the line of the model that it came from.
    """
    asked: set[torch.fx.Node] = set()  # whose values a request decides
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in inputs:
            asked.add(node)
        elif node.op == "call_function" and "sym_size" not in str(node.target):
            operator = str(node.target).removeprefix("aten.").partition(".")[0]
            if operator in _UNGUARDED and not asked.isdisjoint(_indices(node)):
                raise CheckpointRefused(
                    f"the network looks up by computed indices in {node.name} ({node.target}), which cannot be guarded "
                    f"in compiled code; use --to onnx. It is called in\n{node.meta.get('stack_trace', '').strip()}"
                )
            if not asked.isdisjoint(node.all_input_nodes):
                asked.add(node)


def _indices(node: torch.fx.Node) -> list[torch.fx.Node]:
    """What the rows' numbers come from: everything but the table."""
    return [each for each in node.all_input_nodes if each is not node.args[0]]
