"""Which lookups are watched inside the graph, and which outside."""

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops
from trireme_network.graph import RunFailed
from trireme_network.index_guard import add_index_guard
from trireme_network.model_config import ConfigRefused
from trireme_network.run_on_openvino import OpenVino

ROWS = 10


def parameter(name, shape=(-1,), data_type=ov.Type.i64):
    made = ops.parameter(list(shape), data_type, name=name)
    made.output(0).get_tensor().set_names({name})
    return made


@pytest.fixture
def x():
    return parameter("x")


def lookup(indices):
    return ops.gather(ops.constant(np.arange(float(ROWS), dtype=np.float32)), indices, ops.constant(0))


def guarded(x, indices):
    """The guard of a model that looks `indices` up, and the names of the outputs that it added."""
    model = ov.Model([lookup(indices)], [x])
    guard = add_index_guard(model)
    return guard, [output.get_any_name() for output in model.outputs[1:]]


@pytest.fixture
def stream(tmp_path):
    """A function that opens a stream of a model, `y` its output."""

    def opened(result, parameters, threads=1):
        result.output(0).get_tensor().set_names({"y"})
        ov.save_model(ov.Model([result], parameters), tmp_path / "model.xml", compress_to_fp16=False)
        return OpenVino(tmp_path / "model.xml").open_streams(1, threads)[0]

    return opened


@pytest.mark.parametrize("shaped", [False, True])
def test_an_input_is_looked_at_before_the_graph_runs(x, shaped):
    guard, added = guarded(x, ops.unsqueeze(ops.convert(x, "i32"), 0) if shaped else x)
    assert guard.input_rows == {"x": ROWS}
    assert not added
    assert guard.refusal_of_inputs({"x": np.array([ROWS - 1, -ROWS])}) is None
    for index in (ROWS, -ROWS - 1):
        refusal = guard.refusal_of_inputs({"x": np.array([1, index])})
        assert refusal == f"input 'x' holds the index {index}, which is outside its table of {ROWS} rows"


def test_what_a_constant_holds_is_looked_at_once(x):
    held = ops.broadcast(ops.constant(np.array([[3, ROWS - 1, -ROWS]])), ops.constant(np.array([1, 3])))
    guard, added = guarded(x, ops.gather_elements(held, ops.unsqueeze(x, 0), 1))
    assert not guard.input_rows
    assert not added


@pytest.mark.parametrize("entry", [ROWS, -ROWS - 1])
def test_a_constant_with_indices_outside_the_table_is_watched(x, entry):
    guard, added = guarded(x, ops.gather_elements(ops.constant(np.array([3, entry])), x, 0))
    (extremes,) = guard.computed
    assert [extremes.largest, extremes.smallest] == added
    assert extremes.rows == ROWS


def test_a_narrower_type_does_not_keep_a_constants_numbers(x):
    _, added = guarded(x, ops.convert(ops.gather_elements(ops.constant(np.array([3, -1])), x, 0), "u8"))
    assert added  # -1 becomes 255


def test_computed_indices_are_watched_in_the_graph(stream, x):
    run = stream(lookup(ops.add(x, ops.constant(np.array([1])))), [x])
    np.testing.assert_array_equal(run({"x": np.array([ROWS - 2, -ROWS - 1])})["y"], [ROWS - 1, 0])
    for outside in (ROWS - 1, -ROWS - 2, 2**31 - 2, -(2**31)):
        with pytest.raises(RunFailed, match="outside its table of 10 rows"):
            run({"x": np.array([3, outside])})


def test_no_index_at_all_is_none_outside(stream):
    mask = parameter("mask", data_type=ov.Type.boolean)
    run = stream(lookup(ops.squeeze(ops.non_zero(mask, "i64"), 0)), [mask])
    np.testing.assert_array_equal(run({"mask": np.array([True, False, True])})["y"], [0, 2])
    assert run({"mask": np.array([False, False])})["y"].size == 0


@pytest.mark.parametrize(("places", "batch_dims"), [([[0, 2], [3, -3]], 0), ([[2], [-3]], 1)])
def test_a_gather_of_constant_places_loads(places, batch_dims):
    table = parameter("x", (2 if batch_dims else 4, 3), ov.Type.f32)
    guard = add_index_guard(ov.Model([ops.gather_nd(table, ops.constant(np.array(places)), batch_dims)], [table]))
    assert not guard.computed


@pytest.mark.parametrize("places", [[[0, 3]], [[4, 0]], [[0, -4]]])
def test_constant_places_outside_keep_the_model_from_loading(places):
    table = parameter("x", (4, 3), ov.Type.f32)
    with pytest.raises(ConfigRefused, match="GatherND"):
        add_index_guard(ov.Model([ops.gather_nd(table, ops.constant(np.array(places)))], [table]))


def test_constant_indices_outside_the_table_are_refused(stream):
    x = parameter("x", (-1, 3), ov.Type.f32)
    run = stream(ops.gather(x, ops.constant(np.array([0, 3])), ops.constant(1)), [x])
    with pytest.raises(RunFailed, match="outside its table of 3 rows"):
        run({"x": np.ones((2, 3), np.float32)})


def test_a_lookup_that_reads_foreign_memory_keeps_the_model_from_loading():
    indices, table = parameter("i", (-1, 1)), ops.constant(np.ones((4, 3), np.float32))
    with pytest.raises(ConfigRefused, match=r"GatherND.*trireme\.runtime = onnxruntime, or use the official backend"):
        add_index_guard(ov.Model([ops.gather_nd(table, indices)], [indices]))


def test_integers_of_more_than_32_bits_are_refused_wherever_they_go(x):
    guard, _ = guarded(x, ops.add(x, ops.constant(np.array([1]))))
    for integer in (2**31, 2**32, -(2**31) - 1):
        assert f"holds {integer}; integers of more than 32" in guard.refusal_of_inputs({"x": np.array([0, integer])})
    assert guard.refusal_of_inputs({"x": np.array([2**31 - 1, -(2**31)])}) is None
    assert guard.refusal_of_inputs({"x": np.empty(0, np.int64), "y": np.array([True])}) is None


def plane(name):
    return parameter(name, (-1, -1), ov.Type.f32)


@pytest.mark.parametrize("threads", [1, 2])
def test_inputs_that_openvino_cannot_read_in_place_are_copied_for_the_whole_run(stream, threads):
    a, b = plane("a"), plane("b")
    run = stream(ops.subtract(a, b), [a, b], threads)
    for number in range(50):
        left, right = np.full((40, 30), number, np.float32), np.ones((40, 30), np.float32)
        right.flags.writeable = False
        np.testing.assert_array_equal(run({"a": left.T, "b": (right * 2).T})["y"], left.T - 2)
        np.testing.assert_array_equal(run({"a": left, "b": right})["y"], left - 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_that_fails_says_so_and_leaves_the_next_one_right(stream, threads):
    a, b = plane("a"), plane("b")
    run = stream(ops.add(a, b), [a, b], threads)
    ones = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(run({"a": ones, "b": ones})["y"], [[2, 2, 2]])
    with pytest.raises(RunFailed):
        run({"a": ones, "b": np.ones((1, 4), np.float32)})
    with pytest.raises(RunFailed, match="the inputs are a; needed: a, b"):
        run({"a": ones})
    np.testing.assert_array_equal(run({"a": ones, "b": 2 * ones})["y"], [[3, 3, 3]])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_shape_that_was_right_is_right_again_after_a_failed_run(stream, threads):
    """A failed node leaves the nodes behind it with the shapes of the failed run."""
    x, plane = parameter("x", (-1, -1)), ops.constant(np.arange(8.0, dtype=np.float32)[None])
    run = stream(ops.add(ops.gather_elements(plane, x, 1), ops.convert(x, "f32")), [x], threads)
    good, outside = np.array([[1, 3, 7]]), np.arange(12)[None]
    for _ in range(3):
        np.testing.assert_array_equal(run({"x": good})["y"], 2 * good)
        with pytest.raises(RunFailed):
            run({"x": outside})


def test_outputs_have_the_order_of_the_model(tmp_path, x):
    results = [ops.add(x, ops.constant(np.array([number]))) for number in range(8)]
    for number, result in enumerate(results):
        result.output(0).get_tensor().set_names({f"y{number}"})
    ov.save_model(ov.Model(results, [x]), tmp_path / "model.xml")
    (run,) = OpenVino(tmp_path / "model.xml").open_streams(1, 1)
    assert {name: values.tolist() for name, values in run({"x": np.array([5])}).items()} == {
        f"y{number}": [5 + number] for number in range(8)
    }
