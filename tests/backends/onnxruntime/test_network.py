"""What a request is answered does not depend on the requests it runs with, in either runtime."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from small_networks import TABLE, config, doubling, lookup, network, tensor, text_config
from trireme_network.neighbours import Neighbours
from trireme_triton.tensors import InvalidRequest

RUNTIMES = ["onnxruntime", "openvino"]
SLOW_FIXTURES = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(params=RUNTIMES)
def texts(load, text_file, request):
    """The small text encoder, which packs rows."""
    return load(text_file, text_config({"trireme.runtime": request.param, "trireme.threads": "2"}))


def text(*lengths, padding=0, seed=0):
    """A request of one row, which holds segments of these lengths."""
    numbers = np.repeat(range(1, len(lengths) + 1), lengths)
    ids = np.random.default_rng(seed).integers(1, 100, numbers.size)
    row = {"input_ids": ids, "attention_mask": numbers}
    return {name: np.pad(values, (0, padding))[None].astype(np.int64) for name, values in row.items()}


def together(*requests):
    """The rows of these requests as one request."""
    return {name: np.concatenate([request[name] for request in requests]) for name in requests[0]}


def cosine(one, other):
    return float((one * other).sum() / np.sqrt((one * one).sum() * (other * other).sum()))


@given(
    lengths=st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=3), min_size=1, max_size=12),
    padding=st.integers(0, 20),
    seed=st.integers(0, 9),
)
@SLOW_FIXTURES
def test_a_packed_text_gets_the_vector_it_has_alone(texts, reference, lengths, padding, seed):
    requests = [text(*row, padding=padding, seed=seed + place) for place, row in enumerate(lengths)]
    for request, row, answer in zip(requests, lengths, texts.answer(requests), strict=True):
        assert answer["vectors"].shape == (1, len(row), 16)
        ends = np.cumsum(row)
        for vector, end, length in zip(answer["vectors"][0], ends, row, strict=True):
            assert cosine(vector, reference(request["input_ids"][0, end - length : end])) > 0.999999


def test_alone_and_together_are_the_same(texts):
    requests = [text(length, seed=length) for length in (1, 3, 8, 20, 50, 130, 16, 16, 16)]
    for request, answer in zip(requests, texts.answer(requests), strict=True):
        (alone,) = texts.answer([request])
        np.testing.assert_allclose(answer["vectors"], alone["vectors"], atol=2e-6)


@pytest.mark.parametrize("streams", ["1", "2", "3"])
def test_the_answer_is_the_same_while_another_network_computes(load, text_file, streams):
    network = load(text_file, text_config({"trireme.threads": "2", "trireme.streams": streams}))
    requests = [text(length, seed=length) for length in (40, 3, 8, 150, 20)]
    calm = network.answer(requests)
    with Neighbours():
        crowded = network.answer(requests)
    for one, other in zip(calm, crowded, strict=True):
        np.testing.assert_allclose(one["vectors"], other["vectors"], atol=2e-6)


def test_absent_segments_are_zero_rows(texts):
    request = text(5, 7)
    request["attention_mask"][request["attention_mask"] == 1] = 4
    (answer,) = texts.answer([request])
    norms = np.linalg.norm(answer["vectors"][0], axis=1)
    assert [norm > 0 for norm in norms] == [False, True, False, True]


def test_a_shorter_row_of_a_batch_has_zero_rows_at_the_end(texts):
    (answer,) = texts.answer([together(text(3, 3, 3), text(4, padding=5))])
    assert answer["vectors"].shape == (2, 3, 16)
    assert not answer["vectors"][1, 1:].any()


def test_segments_may_lie_anywhere_in_a_row(texts):
    ordered, mixed = text(4, 4), text(4, 4)
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    for name in mixed:
        mixed[name] = mixed[name][:, order]
    first, second = texts.answer([ordered, mixed])
    np.testing.assert_allclose(first["vectors"], second["vectors"], atol=2e-6)


def test_padding_alone_is_answered_as_the_graph_answers_it(texts):
    nothing = text(6)
    nothing["attention_mask"][:] = 0
    empty, full = texts.answer([nothing, text(6)])
    assert not empty["vectors"].any()
    assert full["vectors"].any()


def test_texts_whose_segments_begin_with_a_higher_number_keep_their_places(texts):
    rows = text(4), text(4, seed=1)
    rows[0]["attention_mask"][:] = 2
    (answer,) = texts.answer([together(*rows)])
    for place, row in (((0, 1), 0), ((1, 0), 1)):
        (alone,) = texts.answer([text(4, seed=row)])
        np.testing.assert_allclose(answer["vectors"][place], alone["vectors"][0, 0], atol=2e-6)
    assert not answer["vectors"][[0, 1], [0, 1]].any()


def test_only_padding_is_answered(texts):
    nothing = {name: np.zeros((2, 5), np.int64) for name in ("input_ids", "attention_mask")}
    for answer in texts.answer([nothing, nothing]):
        assert not answer["vectors"].any()


def test_an_id_outside_the_vocabulary_fails_its_own_request_only(texts):
    requests = [text(9, seed=seed) for seed in range(6)]
    requests[2]["input_ids"][0, 4] = 100
    answers = texts.answer(requests)
    assert [isinstance(answer, InvalidRequest) for answer in answers] == [place == 2 for place in range(6)]
    assert "the network cannot compute inputs" in str(answers[2])


def test_a_text_longer_than_the_table_of_positions_is_refused(texts):
    for _ in range(3):  # what is refused spoils nothing for what comes after
        longest, longer, short = texts.answer([text(160), text(161), text(16)])
        assert longest["vectors"].shape == short["vectors"].shape == (1, 1, 16)
        assert isinstance(longer, InvalidRequest)


@pytest.mark.parametrize("shape", [(1, 0), (0, 4)])
def test_an_empty_tensor_is_refused_by_name_and_shape(texts, shape):
    empty = {name: np.zeros(shape, np.int64) for name in ("input_ids", "attention_mask")}
    refusal, answer = texts.answer([empty, text(3)])
    assert isinstance(refusal, InvalidRequest)
    assert re.search(r"'(input_ids|attention_mask)' has shape", str(refusal))
    assert answer["vectors"].any()


def test_inputs_of_different_shapes_are_refused(texts):
    request = text(4)
    request["input_ids"] = request["input_ids"][:, :3]
    (refusal,) = texts.answer([request])
    assert "'input_ids' has shape [1, 3]; it must be [1, 4]" in str(refusal)


def test_a_segment_number_beyond_the_tokens_of_a_row_is_refused(texts):
    request = text(4)
    request["attention_mask"][0, 0] = 2**40
    (refusal,) = texts.answer([request])
    assert f"has the segment number {2**40} in 1 rows of 4 tokens; at most 4" in str(refusal)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_segment_longer_than_the_config_allows_is_refused_before_it_costs_the_square_of_its_length(
    load, text_file, runtime
):
    network = load(text_file, text_config({"trireme.segment_tokens": "160", "trireme.runtime": runtime}))
    longest, longer, two, huge = network.answer([text(160), text(161), text(160, 160), text(5, 200_000)])
    assert longest["vectors"].shape == (1, 1, 16)
    assert two["vectors"].shape == (1, 2, 16)
    for refusal, length in ((longer, 161), (huge, 200_000)):
        assert (
            str(refusal)
            == f"input 'attention_mask', row 0: a segment of {length} tokens; this network takes at most 160"
        )


def test_an_answer_of_more_rows_than_any_text_has_windows_is_refused(texts):
    """Rows of absent segments take room too: a small request must not have an answer of gigabytes."""
    request = together(*[text(300, seed=seed) for seed in range(64)])
    request["attention_mask"][3, 7] = 257
    (refusal,) = texts.answer([request])
    assert "has the segment number 257 in 64 rows of 300 tokens; at most 256" in str(refusal)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_is_not_finite_does_not_spread_to_a_neighbour(load, runtime):
    """In this graph a row's second segment takes the sum of the row, so one infinite id would show in its neighbour."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["values"]),
        helper.make_node("ReduceSum", ["values", "length_axis"], ["sum"], keepdims=1),
        helper.make_node("Mul", ["sum", "zero"], ["spill"]),
        helper.make_node("Add", ["values", "spill"], ["rows"]),
    ]
    tokens = (TensorProto.INT64, ("n", "l"))
    file = network(
        nodes,
        {"ids": tokens, "mask": tokens},
        {"rows": (TensorProto.FLOAT, ("n", "l", 1))},
        {
            "table": np.array([[0], [1], [np.inf]], np.float32),
            "length_axis": np.array([1]),
            "zero": np.zeros(1, np.float32),
        },
    )
    names = [tensor("ids", "TYPE_INT64", [-1]), tensor("mask", "TYPE_INT64", [-1])]
    parsed = config(
        names,
        [tensor("rows", "TYPE_FP32", [-1, 1])],
        parameters={"trireme.segments": "mask", "trireme.runtime": runtime},
    )
    good, bad = ({"ids": np.full((1, 1), number), "mask": np.ones((1, 1), np.int64)} for number in (1, 2))
    answers = load(file, parsed).answer([good, bad, good])
    assert [answer["rows"].item() for answer in (answers[0], answers[2])] == [1, 1]
    assert not np.isfinite(answers[1]["rows"]).any()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_padding_that_was_not_asked_for_spoils_no_answer(load, runtime):
    """In this graph padding anywhere in a row makes NaN of it; 21 tokens are computed in a longer row."""
    nodes = [
        helper.make_node("Cast", ["mask"], ["present"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMin", ["present", "length_axis"], ["least"], keepdims=1),
        helper.make_node("Div", ["zero", "least"], ["spill"]),
        helper.make_node("Gather", ["table", "ids"], ["values"]),
        helper.make_node("Unsqueeze", ["spill", "last_axis"], ["spill_column"]),
        helper.make_node("Add", ["values", "spill_column"], ["rows"]),
    ]
    tokens = (TensorProto.INT64, ("n", "l"))
    file = network(
        nodes,
        {"ids": tokens, "mask": tokens},
        {"rows": (TensorProto.FLOAT, ("n", "l", 1))},
        {
            "table": np.array([[0], [1]], np.float32),
            "length_axis": np.array([1]),
            "last_axis": np.array([2]),
            "zero": np.zeros(1, np.float32),
        },
    )
    parsed = config(
        [tensor("ids", "TYPE_INT64", [-1]), tensor("mask", "TYPE_INT64", [-1])],
        [tensor("rows", "TYPE_FP32", [-1, 1])],
        parameters={"trireme.segments": "mask", "trireme.runtime": runtime},
    )
    (answer,) = load(file, parsed).answer([{"ids": np.ones((1, 21), np.int64), "mask": np.ones((1, 21), np.int64)}])
    np.testing.assert_array_equal(answer["rows"], np.ones((1, 21, 1)))


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6)), min_size=1, max_size=20))
@SLOW_FIXTURES
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_requests_of_any_shape_get_their_own_rows_back(load, runtime, shapes):
    parsed = config(
        [tensor("x", "TYPE_INT64", [-1])],
        [tensor("y", "TYPE_FP32", [-1, 3])],
        parameters={"trireme.runtime": runtime, "trireme.threads": "2"},
    )
    requests = [{"x": np.random.default_rng(place).integers(0, 10, shape)} for place, shape in enumerate(shapes)]
    for request, answer in zip(requests, load(lookup(), parsed).answer(requests), strict=True):
        np.testing.assert_array_equal(answer["y"], TABLE[request["x"]])


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_bad_request_fails_alone_where_rows_are_stacked(load, runtime):
    parsed = config(
        [tensor("x", "TYPE_INT64", [-1])], [tensor("y", "TYPE_FP32", [-1, 3])], parameters={"trireme.runtime": runtime}
    )
    good, bad = np.array([[1, 2]]), np.array([[1, 10]])
    answers = load(lookup(), parsed).answer([{"x": good}, {"x": bad}, {"x": good}])
    assert [isinstance(answer, InvalidRequest) for answer in answers] == [False, True, False]


def test_without_a_batch_dimension_every_request_runs_by_itself(load):
    parsed = config([tensor("x", "TYPE_FP32", [2])], max_batch_size=0)
    answers = load(doubling((2,)), parsed).answer([{"x": np.full(2, value, np.float32)} for value in (1, 2)])
    assert [answer["y"].tolist() for answer in answers] == [[2, 2], [4, 4]]


def token_network(load, runtime):
    """tokens[b, l] = TABLE[ids[b, l]], zeros where `mask` is 0; rows are packed."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["values"]),
        helper.make_node("Greater", ["mask", "nothing"], ["there"]),
        helper.make_node("Cast", ["there"], ["present"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["present", "last_axis"], ["column"]),
        helper.make_node("Mul", ["values", "column"], ["tokens"]),
    ]
    rows = (TensorProto.INT64, ("n", "l"))
    file = network(
        nodes,
        {"ids": rows, "mask": rows},
        {"tokens": (TensorProto.FLOAT, ("n", "l", 3))},
        {"table": TABLE, "nothing": np.zeros(1, np.int64), "last_axis": np.array([2])},
    )
    parameters = {"trireme.segments": "mask", "trireme.segment_outputs": "tokens", "trireme.runtime": runtime}
    return load(
        file,
        config(
            [tensor("ids", "TYPE_INT64", [-1]), tensor("mask", "TYPE_INT64", [-1])],
            [tensor("tokens", "TYPE_FP32", [-1, 3])],
            parameters={**parameters, "trireme.threads": "2"},
        ),
    )


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(0, 3)), min_size=1, max_size=12))
@SLOW_FIXTURES
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_every_token_of_a_packed_row_gets_its_own_output_back(load, runtime, shapes):
    requests = []
    for place, (rows, length, most) in enumerate(shapes):
        random = np.random.default_rng(place)
        numbers = random.integers(0, min(most, length) + 1, (rows, length))  # segments anywhere in a row, and padding
        requests.append({"ids": random.integers(0, 10, (rows, length)), "mask": numbers})
    for request, answer in zip(requests, token_network(load, runtime).answer(requests), strict=True):
        np.testing.assert_array_equal(answer["tokens"], TABLE[request["ids"]] * (request["mask"] > 0)[..., None])
