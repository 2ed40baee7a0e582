"""How an answer is compared with the expected one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trireme_server.golden import compare
from trireme_server.golden_grpc import _answer
from trireme_server.golden_http import _pack, _unpack
from trireme_server.manifest import Check, Tensor
from trireme_server.triton_api import TritonRefused


def tensor(values, shape=None, check=None, datatype="FP32"):
    return Tensor("out", datatype, tuple(shape or [len(values)]), tuple(values), check)


def fault(expected, given):
    return compare(expected, given).fault


def test_another_shape_is_a_difference_even_if_the_values_agree():
    assert fault(tensor([1.0, 2.0], [1, 2], Check("equal")), tensor([1.0, 2.0], [2, 1])) is not None


def test_an_output_that_is_missing_or_of_another_datatype_is_a_difference():
    expected = tensor([1.0], check=Check("max_abs", 1.0))
    assert fault(expected, None) == "is missing"
    assert fault(expected, tensor([b"1"], datatype="BYTES")) == "is BYTES instead of FP32"


def test_a_shape_that_the_values_do_not_fill_is_a_difference():
    assert "has 1 values" in fault(tensor([1.0, 2.0], check=Check("equal")), tensor([1.0], [2]))


@pytest.mark.parametrize(
    ("check", "found", "excess"),
    [(Check("max_abs", 0.5), 0.25, -0.25), (Check("min_cosine", 0.9), 0.8, 0.1), (Check("equal"), 1.0, 1.0)],
)
def test_what_is_found_is_in_the_measure_of_the_check(check, found, excess):
    given = {"max_abs": [1.0, 0.25], "min_cosine": [0.8, 0.6], "equal": [1.0, 2.0]}[check.kind]
    comparison = compare(tensor([1.0, 0.0], check=check), tensor(given))
    assert comparison.found == pytest.approx(found)
    assert comparison.excess == pytest.approx(excess)
    assert (comparison.fault is not None) == (excess > 0)


def test_a_nan_is_the_largest_difference_wherever_it_stands():
    for values in ([math.nan, 2.0], [2.0, math.nan]):
        comparison = compare(tensor([0.0, 0.0], check=Check("max_abs", 5.0)), tensor(values))
        assert math.isnan(comparison.found)
        assert comparison.excess == math.inf


def test_an_output_without_values_does_not_differ():
    for check in (Check("max_abs", 0.0), Check("min_cosine", 1.0), Check("equal")):
        assert fault(tensor([], [0, 3], check), tensor([], [0, 3])) is None


def test_bytes_must_be_equal_to_the_last_one():
    expected = tensor([b"a\0"], check=Check("equal"), datatype="BYTES")
    assert fault(expected, tensor([b"a\0"], datatype="BYTES")) is None
    assert fault(expected, tensor([b"a"], datatype="BYTES")) is not None


@pytest.mark.parametrize(("given_value", "is_same"), [(1.01, True), (1.1, False), (math.nan, False), (math.inf, False)])
def test_max_abs_bounds_every_value(given_value, is_same):
    expected = tensor([1.0, 1.0], check=Check("max_abs", 0.05))
    assert (fault(expected, tensor([1.0, given_value])) is None) == is_same


ENTITY = b'[{"label": "SEA", "score": 0.5, "start": 3}]'


@pytest.mark.parametrize(
    ("given_text", "found"),
    [
        (ENTITY, 0.0),
        (b'[{"start": 3, "label": "SEA",  "score": 0.51}]', 0.01),
        (b'[{"label": "SEA", "score": 0.6, "start": 3}]', 0.1),
        (b'[{"label": "SEA", "score": NaN, "start": 3}]', None),
        (b'[{"label": "SEA", "score": 0.5, "start": 4}]', None),
        (b'[{"label": "SEA", "score": 0.5, "start": 3.0}]', None),
        (b'[{"label": "sea", "score": 0.5, "start": 3}]', None),
        (b'[{"label": "SEA", "score": 0.5}]', None),
        (b"[]", None),
        (b"{", None),
        (b"[" * 100_000, None),
    ],
)
def test_json_must_be_the_same_but_for_numbers_with_a_fraction(given_text, found):
    expected = tensor([b"[]", ENTITY], check=Check("json_max_abs", 0.05), datatype="BYTES")
    comparison = compare(expected, tensor([b"[]", given_text], datatype="BYTES"))
    assert comparison.found == (None if found is None else pytest.approx(found))
    assert (comparison.fault is None) == (found is not None and found < 0.05)


def test_min_cosine_is_asked_of_every_row():
    expected = tensor([1.0, 0.0, 0.0, 1.0], [2, 2], Check("min_cosine", 0.99))
    assert fault(expected, tensor([1.0, 0.0, 0.1, 1.0], [2, 2])) is None
    assert fault(expected, tensor([1.0, 0.0, 1.0, 0.0], [2, 2])) is not None


@pytest.mark.parametrize(("scale", "is_same"), [(1.009, True), (0.991, True), (1.011, False), (0.5, False), (7, False)])
def test_a_row_of_another_length_is_a_difference_although_its_direction_is_right(scale, is_same):
    expected = tensor([0.6, 0.8, 3.0, 4.0], [2, 2], Check("min_cosine", 0.9999))
    comparison = compare(expected, tensor([0.6, 0.8, 3.0 * scale, 4.0 * scale], [2, 2]))
    assert comparison.length_change == pytest.approx(abs(scale - 1))
    assert (comparison.fault is None, comparison.excess <= 0) == (is_same, is_same)


def test_a_row_of_length_1_may_be_cut_to_bf16():
    row = np.random.default_rng(0).normal(size=384).astype(np.float32)
    row /= np.linalg.norm(row)
    cut = (row.view(np.uint32) & 0xFFFF0000).view(np.float32)  # not rounded: twice the error
    assert fault(tensor(row.tolist(), check=Check("min_cosine", 0.9999)), tensor(cut.tolist())) is None


@pytest.mark.parametrize("values", [[math.inf, -math.inf], [math.inf, 1.0], [1e308, -1e308], [10**300, 10**300]])
def test_values_that_have_no_cosine_are_a_difference(values):
    expected = tensor([1e10, 1e10], check=Check("min_cosine", 0.9))
    comparison = compare(expected, tensor(values))
    assert comparison.fault is not None
    assert comparison.excess > 0


def test_a_row_of_zeros_has_no_direction_and_is_a_difference():
    assert fault(tensor([1.0, 0.0], check=Check("min_cosine", 0.0)), tensor([0.0, 0.0])) is not None


@given(st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=1, max_size=20))
def test_the_cosine_is_that_of_numpy(pairs):
    want, have = np.array(pairs).T
    norms = np.linalg.norm(want) * np.linalg.norm(have)
    if norms < 1e-6:
        return
    have *= np.linalg.norm(want) / np.linalg.norm(have)
    norms = np.linalg.norm(want) * np.linalg.norm(have)
    cosine = float(want @ have / norms)
    just_below, just_above = (Check("min_cosine", cosine + step) for step in (-1e-6, 1e-6))
    assert fault(tensor(want.tolist(), check=just_below), tensor(have.tolist())) is None
    assert fault(tensor(want.tolist(), check=just_above), tensor(have.tolist())) is not None


@given(st.lists(st.binary(max_size=30)))
def test_bytes_travel_as_the_official_client_packs_them(items):
    from tritonclient.utils import serialize_byte_tensor

    packed = _pack(items)
    assert _unpack(packed) == items
    if items:
        official = serialize_byte_tensor(np.array([*items, b""], dtype=object)[:-1])
        assert packed == official.item()


@pytest.mark.parametrize(
    ("datatype", "raw"), [("FP32", b"123"), ("FP32", b"12345678"), ("BYTES", b"12"), ("OARS", b"1")]
)
def test_a_tensor_over_grpc_that_its_bytes_do_not_make_up_is_refused(datatype, raw):
    from tritonclient.grpc import InferResult, service_pb2

    response = service_pb2.ModelInferResponse(raw_output_contents=[raw])
    response.outputs.add(name="out", datatype=datatype, shape=[1])
    with pytest.raises(TritonRefused, match="cannot be read as Triton's"):
        _answer(InferResult(response))
