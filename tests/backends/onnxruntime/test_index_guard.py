"""Which lookups are watched inside the graph, and which outside."""

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops
from trireme_network.index_guard import add_index_guard

ROWS = 10


@pytest.fixture
def x():
    parameter = ops.parameter([-1], ov.Type.i64, name="x")
    parameter.output(0).get_tensor().set_names({"x"})
    return parameter


def guarded(x, indices):
    """The guard of a model that looks `indices` up, and the names of the outputs that it added."""
    model = ov.Model([ops.gather(ops.constant(np.arange(float(ROWS))), indices, ops.constant(0))], [x])
    guard = add_index_guard(model)
    return guard, [output.get_any_name() for output in model.outputs[1:]]


def test_an_input_is_looked_at_before_the_graph_runs(x):
    guard, added = guarded(x, x)
    assert guard.input_sizes == {"x": ROWS}
    assert not added
    assert guard.refusal_of_inputs({"x": np.array([ROWS - 1, -ROWS])}) is None
    for index in (ROWS, -ROWS - 1):
        refusal = guard.refusal_of_inputs({"x": np.array([1, index])})
        assert refusal == f"input 'x' holds the index {index}, which is outside its table of {ROWS} rows"


def test_what_a_constant_holds_is_looked_at_once(x):
    guard, added = guarded(x, ops.gather(ops.constant(np.array([3, ROWS - 1, -ROWS])), x, ops.constant(0)))
    assert guard.input_sizes == {"x": 3}
    assert not added


@pytest.mark.parametrize("entry", [ROWS, -ROWS - 1])
def test_a_constant_with_indices_outside_the_table_is_watched(x, entry):
    guard, added = guarded(x, ops.gather(ops.constant(np.array([3, entry])), x, ops.constant(0)))
    assert list(guard.output_sizes) == added
    assert list(guard.output_sizes.values()) == [ROWS, ROWS]


def test_computed_indices_are_watched_in_the_graph(x):
    guard, added = guarded(x, ops.add(x, ops.constant(1)))
    assert not guard.input_sizes
    assert list(guard.output_sizes) == added
    inside, above, below = (dict(zip(added, ends, strict=True)) for ends in ((9, -10), (10, 0), (5, -11)))
    assert guard.refusal_of_outputs(inside) is None
    assert "is 10; its table has 10 rows" in guard.refusal_of_outputs(above)
    assert "is -11; its table has 10 rows" in guard.refusal_of_outputs(below)


def test_integers_of_more_than_32_bits_are_refused_wherever_they_go(x):
    guard, _ = guarded(x, ops.add(x, ops.constant(1)))
    assert "holds 2147483648; integers of more than 32 bits" in guard.refusal_of_inputs({"x": np.array([2**31])})
    assert guard.refusal_of_inputs({"x": np.array([2**31 - 1, -(2**31)])}) is None
    assert guard.refusal_of_inputs({"x": np.empty(0, np.int64), "y": np.array([True])}) is None
