"""What the layers of an original and of its ONNX graph give for one case: both sides of a `divergence`.

The exporter notes of each node in which modules it was traced. A module's output is the one value that leaves those
nodes; a module that several values leave, whose last operator went into another one, or that runs more than once is
left out. Of modules that give the same value, the innermost stands for all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
import torch
from torch import nn

from trireme_export.assembly import Alone, Array, Assembly, OriginalLayers, ParityCase
from trireme_export.divergence import LayerValues
from trireme_export.runtimes import installed_runtimes
from trireme_export.to_onnx import trace

_SCOPES = "pkg.torch.onnx.name_scopes"


class _GraphLayer(NamedTuple):
    """A value of the traced graph that is a module's output."""

    value: ir.Value
    modules: tuple[str, ...]  # paths in the network, the innermost first


@dataclass(frozen=True)
class TracedLayers:
    """Where the modules' outputs are in the graph that `write_onnx` makes of a network, and in what becomes of it."""

    layers: tuple[_GraphLayer, ...]  # in the order of the graph
    output: ir.Value


def traced_layers(assembly: Assembly) -> TracedLayers:
    """Traces the network again to find out."""
    graph = trace(assembly).model.graph
    return TracedLayers(tuple(_graph_layers(graph)), graph.outputs[0])


class LayersAtWork:
    """An original, and its ONNX file at `graph` in the runtime of that name, at work on one case.

    All values of the case are in memory together, those of the original and those of the graph.
    """

    def __init__(
        self, traced: TracedLayers, original: OriginalLayers, graph: Path, runtime: str, case: ParityCase
    ) -> None:
        self._layers = traced.layers
        self._output = traced.output
        self._expected = case.expected
        self._original = _Seen(original, case.inputs)
        self._values = _shown(graph, [*(layer.value for layer in self._layers), self._output], runtime, case.inputs)

    def __iter__(self) -> Iterator[LayerValues]:
        """All layers that can be compared, in the graph's order, and last its output, unless that is a layer's."""
        named: dict[ir.Value, str] = {}
        for value, modules in self._layers:
            if value in self._values and (pair := self._original.pair(modules, self._values[value])):
                yield LayerValues(name=pair[0], actual=pair[1], expected=pair[2], reads=_read_by(value, named))
                named[value] = pair[0]
        answer = self._values[self._output]
        if self._output not in named and answer.shape == self._expected.shape:
            name, reads = f"output {self._output.name}", _read_by(self._output, named)
            yield LayerValues(name=name, actual=answer.ravel(), expected=self._expected.ravel(), reads=reads)

    def left_out(self) -> tuple[str, ...]:
        """Of the original's modules with weights of their own, those that were compared with nothing so far."""
        return self._original.left_out()


def _graph_layers(graph: ir.Graph) -> list[_GraphLayer]:
    """In the order of the graph."""
    leaving: dict[str, list[ir.Value]] = {}
    for node in graph:
        for path in _modules_of(node):
            leaving.setdefault(path, []).extend(value for value in node.outputs if _leaves(value, path))
    by_value: dict[ir.Value, list[str]] = {}
    for path, values in leaving.items():
        if len(values) == 1 and all(_modules_noted(user) for user in values[0].consumers()):
            by_value.setdefault(values[0], []).append(path)
    layers = [_GraphLayer(value, tuple(sorted(paths, key=len, reverse=True))) for value, paths in by_value.items()]
    order = {node: place for place, node in enumerate(graph)}
    return sorted(layers, key=lambda layer: order[_producer(layer.value)])


def _leaves(value: ir.Value, module: str) -> bool:
    """Whether a number with a fraction is given to somebody outside the module."""
    is_float = value.dtype is not None and value.dtype.is_floating_point()
    return is_float and (value.is_graph_output() or any(module not in _modules_of(user) for user in value.consumers()))


def _modules_noted(node: ir.Node) -> bool:
    return _SCOPES in node.metadata_props


def _modules_of(node: ir.Node) -> tuple[str, ...]:
    """The paths of the modules that a node was traced in, the outermost first; without the network itself."""
    scopes: list[str] = ast.literal_eval(node.metadata_props.get(_SCOPES, "[]"))
    return tuple(scope for scope in scopes[:-1] if scope)


def _producer(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None, "a layer's value is made by a node"
    return node


def _read_by(value: ir.Value, compared: Mapping[ir.Value, str]) -> tuple[str, ...]:
    """The names of the nearest compared values that `value` is computed from."""
    found: dict[str, None] = {}
    seen: set[ir.Value] = set()
    waiting = list(_producer(value).inputs)
    while waiting:
        each = waiting.pop()
        if each is None or each in seen:
            continue
        seen.add(each)
        if each in compared:
            found[compared[each]] = None
        elif (producer := each.producer()) is not None:
            waiting += producer.inputs
    return tuple(found)


def _shown(path: Path, wanted: Sequence[ir.Value], runtime: str, inputs: Mapping[str, Array]) -> dict[ir.Value, Array]:
    """Run the file with the values of the traced graph as further outputs. They are found by the nodes that make them.

    A rewritten graph has further nodes, and may have other names for values, but none for the nodes that it keeps.
    """
    model = onnx.load(path, load_external_data=False)
    made = {node.name: node.output for node in model.graph.node}
    places = {value: (_producer(value).name, value.index() or 0) for value in wanted}
    names = {value: made[node][place] for value, (node, place) in places.items() if node in made}
    names[wanted[-1]] = model.graph.output[0].name
    del model.graph.output[1:]
    shown = list(dict.fromkeys([model.graph.output[0].name, *names.values()]))
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in shown[1:])
    beside = path.with_name("shown.onnx")  # where the file's external data are
    onnx.save(model, beside)
    try:
        session = next(each for each in installed_runtimes(beside) if runtime.startswith(each.name))
        values = dict(zip(shown, session.outputs(inputs), strict=True))
    finally:
        beside.unlink()
    return {value: values[name] for value, name in names.items()}


@dataclass
class _Run:
    """What the original's modules gave while it computed one text or image."""

    alone: Alone
    given: dict[str, list[Array]] = field(default_factory=dict)


class _Seen:
    """The original at work on every text or image of a case, one after the other."""

    def __init__(self, layers: OriginalLayers, inputs: Mapping[str, Array]) -> None:
        self._layers = layers
        self._runs = [_Run(alone) for alone in layers.each(inputs)]
        self._compared: set[str] = set()
        for run in self._runs:
            handles = [
                module.register_forward_hook(_noting(run.given.setdefault(name, [])))
                for name, module in layers.root.named_modules()
                if name
            ]
            try:
                run.alone.run()
            finally:
                for handle in handles:
                    handle.remove()

    def pair(self, modules: Sequence[str], value: Array) -> tuple[str, Array, Array] | None:
        """The first of `modules` (paths in the network) whose output has the place of `value`: its name, both sides."""
        names = [name for name in map(self._layers.name_in_original, modules) if name is not None]
        for name in names:
            parts = list(self._parts(name, value))
            if all(part is not None for part, _ in parts):
                self._compared.update(names)
                actual, expected = (
                    np.concatenate([part.ravel() for part in side]) for side in zip(*parts, strict=True)
                )
                return name, actual, expected
        return None

    def _parts(self, name: str, value: Array) -> Iterator[tuple[Any, Array]]:
        for run in self._runs:
            given = run.given.get(name, [])
            own = given[0] if len(given) == 1 else np.zeros(0)
            yield (run.alone.part(value, own) if own.size else None), own

    def left_out(self) -> tuple[str, ...]:
        """Modules that have weights of their own, ran, and were compared with nothing."""
        return tuple(
            name
            for name, module in self._layers.root.named_modules()
            if name not in self._compared
            and self._runs[0].given.get(name)
            and next(module.parameters(recurse=False), None) is not None
        )


def _noting(given: list[Array]) -> Any:
    def note(module: nn.Module, arguments: object, output: Any) -> None:  # noqa: ARG001 - as hooks are called
        tensor = output
        while isinstance(tensor, tuple | list | dict) and tensor:
            tensor = next(iter(tensor.values())) if isinstance(tensor, dict) else tensor[0]
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
            given.append(tensor.detach().clone().numpy())

    return note
