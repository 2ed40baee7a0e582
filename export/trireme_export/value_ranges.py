"""How large the values of a graph become on samples, by ONNX Runtime in fp32. Knows no task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from trireme_export.int8_values import Activation

SEED = 20_24
ROWS_OF_A_SAMPLE = 64
MOST_SAMPLES = 32  # of which rows are kept; a row of every activation of BERT-base together has 250 kB
Inputs = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Range:
    """The smallest and the largest number of a value, over all samples."""

    low: float
    high: float

    @property
    def largest(self) -> float:
        """Without its sign."""
        return max(abs(self.low), abs(self.high))


def ranges_of(path: Path, samples: Iterable[Inputs]) -> dict[str, Range]:
    """Of every fp32 value that a node of the ONNX file at `path` gives, by its name; of the file's fp32 inputs too.

    Only the two numbers leave the graph: the values themselves are as many gigabytes as they like to be.
    """
    model = onnx.load(path, load_external_data=False)
    names = _show_ranges(model)
    extremes = [np.stack(both) for both in _run(model, path, ["ReduceMin", "ReduceMax"], samples)]
    low, high = np.min(extremes, axis=0)[0], np.max(extremes, axis=0)[1]
    return {name: Range(float(least), float(most)) for name, least, most in zip(names, low, high, strict=True)}


def activations_of(path: Path, axes: Mapping[str, int], samples: Iterable[Inputs]) -> dict[str, Activation]:
    """Of the values that `axes` names, each with the dimension that has its channels."""
    names = list(axes)
    model = onnx.load(path, load_external_data=False)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    seen: list[list[Activation]] = []  # by sample, and of each by name
    generator = np.random.default_rng(SEED)
    kept, step = 0, 1
    for number, values in enumerate(_run(model, path, names, samples)):
        count = ROWS_OF_A_SAMPLE if number % step == 0 else 0
        seen.append([_observed(value, axes[name], count, generator) for name, value in zip(names, values, strict=True)])
        kept += count > 0
        if kept == MOST_SAMPLES:  # from now on of every second of those that would have been
            step, kept = 2 * step, MOST_SAMPLES // 2
            seen = [each if place % step == 0 else _without_rows(each) for place, each in enumerate(seen)]
    return {name: _together(each) for name, each in zip(names, zip(*seen, strict=True), strict=True)}


def _observed(value: NDArray[Any], axis: int, count: int, generator: np.random.Generator) -> Activation:
    """What one sample says of a value whose channels are in the dimension `axis`, with so many of its rows."""
    channels_last = np.moveaxis(value, axis, -1)
    rows = channels_last.reshape(-1, channels_last.shape[-1])
    some = generator.permutation(len(rows))[:count]
    return Activation(rows[some], rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0))


def _without_rows(activations: Sequence[Activation]) -> list[Activation]:
    return [replace(each, rows=each.rows[:0]) for each in activations]


def _together(samples: Sequence[Activation]) -> Activation:
    return Activation(
        np.concatenate([each.rows for each in samples]),
        np.mean([each.mean for each in samples], axis=0),
        np.min([each.low for each in samples], axis=0),
        np.max([each.high for each in samples], axis=0),
    )


def _show_ranges(model: onnx.ModelProto) -> list[str]:
    """Give the model no outputs but the ranges, of the values that are returned: the lowest of each, the highest."""
    graph = model.graph
    declared = [*graph.input, *graph.value_info, *graph.output]
    floats = {each.name for each in declared if each.type.tensor_type.elem_type == TensorProto.FLOAT}
    given = {name for node in graph.node for name in node.output} | {each.name for each in graph.input}
    names = sorted(floats & given)
    del graph.output[:]
    graph.initializer.append(helper.make_tensor("range/one", TensorProto.INT64, [1], [1]))
    for reduce in ("ReduceMin", "ReduceMax"):
        for name in names:
            graph.node.append(helper.make_node(reduce, [name], [f"{reduce}/{name}"], keepdims=0))
            graph.node.append(helper.make_node("Reshape", [f"{reduce}/{name}", "range/one"], [f"{reduce}/{name}/1"]))
        graph.node.append(helper.make_node("Concat", [f"{reduce}/{name}/1" for name in names], [reduce], axis=0))
        graph.output.append(helper.make_tensor_value_info(reduce, TensorProto.FLOAT, [len(names)]))
    return names


def _run(
    model: onnx.ModelProto, path: Path, outputs: Sequence[str], samples: Iterable[Inputs]
) -> Iterator[list[NDArray[Any]]]:
    """`model`, a changed copy of what `path` holds, on every sample."""
    import onnxruntime  # type: ignore[import-untyped]

    beside = path.with_name("observed.onnx")  # where the file's external data are
    onnx.save(model, beside)
    try:
        session = onnxruntime.InferenceSession(beside, providers=["CPUExecutionProvider"])
    finally:
        beside.unlink()
    for inputs in samples:
        yield session.run(list(outputs), dict(inputs))
