"""The stage `embedding` against NumPy in float64, text by text."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trireme_triton.parameters import InvalidParameter

WIDTH = 8
shared_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
windows_of_requests = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=5)


@pytest.fixture
def embedding(load):
    return lambda **parameters: load("embedding", parameters, sizes={"D": WIDTH})


def network_answer(windows, seed=0):
    """What a network gives for texts of these numbers of windows: rows of absent windows are zero."""
    rows = np.random.default_rng(seed).normal(size=(len(windows), max(windows), WIDTH)).astype(np.float32)
    for text, count in enumerate(windows):
        rows[text, count:] = 0
    return {"embedding": rows, "windows": np.array(windows, np.int32)[:, None]}


def expected(rows, count, *, how="mean", normalize=True, dimensions=None):
    present = rows[:count].astype(np.float64)
    vector = (present.mean(axis=0) if how == "mean" else present.max(axis=0))[:dimensions]
    return vector / np.linalg.norm(vector) if normalize else vector


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("dimensions", [None, 3])
@shared_files
@given(windows_of_requests)
def test_windows_are_combined_then_cut_then_normalised(embedding, how, normalize, dimensions, requests):
    options = {"dimensions": str(dimensions)} if dimensions else {}
    stage = embedding(windows=how, normalize=str(normalize).lower(), **options)
    batch = [network_answer(windows, seed) for seed, windows in enumerate(requests)]
    for inputs, answer in zip(batch, stage.answer(batch), strict=True):
        assert answer["embedding"].dtype == np.float32
        for rows, (count,), vector in zip(inputs["embedding"], inputs["windows"], answer["embedding"], strict=True):
            reference = expected(rows, count, how=how, normalize=normalize, dimensions=dimensions)
            np.testing.assert_allclose(vector, reference, atol=2e-6)


@shared_files
@given(windows_of_requests)
def test_a_request_is_answered_the_same_alone_and_among_others(embedding, requests):
    stage = embedding()
    batch = [network_answer(windows, seed) for seed, windows in enumerate(requests)]
    for together, inputs in zip(stage.answer(batch), batch, strict=True):
        np.testing.assert_array_equal(together["embedding"], stage.answer([inputs])[0]["embedding"])


def test_rows_of_absent_windows_count_for_nothing_whatever_they_hold(embedding):
    inputs = network_answer([1, 3, 2])
    (clean,) = embedding().answer([inputs])
    inputs["embedding"][0, 1:] = np.nan
    (dirty,) = embedding().answer([inputs])
    np.testing.assert_array_equal(clean["embedding"], dirty["embedding"])


def test_a_zero_vector_stays_zero(embedding):
    inputs = {"embedding": np.zeros((1, 1, WIDTH), np.float32), "windows": np.ones((1, 1), np.int32)}
    assert not embedding().answer([inputs])[0]["embedding"].any()


def hidden_states(windows, lengths, padding, seed=0):
    """One row of hidden states: windows of these lengths side by side, then padding."""
    mask = np.concatenate([np.repeat(np.arange(1, windows + 1), lengths), np.zeros(padding, np.int64)])[None]
    hidden = np.random.default_rng(seed).normal(size=(*mask.shape, WIDTH)).astype(np.float32)
    return {"hidden_states": hidden, "attention_mask": mask, "windows": np.array([[windows]], np.int32)}


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@shared_files
@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=1, max_size=4), st.integers(0, 3))
def test_hidden_states_are_pooled_window_by_window(embedding, pooling, texts, padding):
    stage = embedding(pooling=pooling, normalize="false")
    batch = [hidden_states(len(lengths), lengths, padding, seed) for seed, lengths in enumerate(texts)]
    for inputs, answer, lengths in zip(batch, stage.answer(batch), texts, strict=True):
        hidden, mask = inputs["hidden_states"][0].astype(np.float64), inputs["attention_mask"][0]
        windows = [hidden[mask == segment] for segment in range(1, len(lengths) + 1)]
        pooled = [window.mean(axis=0) if pooling == "mean" else window[0] for window in windows]
        np.testing.assert_allclose(answer["embedding"][0], np.mean(pooled, axis=0), atol=2e-6)


def test_rows_padded_on_the_left_are_pooled_too(embedding):
    inputs = hidden_states(2, [2, 3], 2)
    flipped = {**inputs, "attention_mask": np.roll(inputs["attention_mask"], 2, axis=1)}
    flipped["hidden_states"] = np.roll(inputs["hidden_states"], 2, axis=1)
    stage = embedding(pooling="mean")
    right, left = stage.answer([inputs, flipped])
    np.testing.assert_array_equal(right["embedding"], left["embedding"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"embedding": np.zeros((1, 2, WIDTH + 1), np.float32)},
            r"'embedding' has shape \[1, 2, 9\].*\[batch, windows, 8",
        ),
        ({"embedding": np.zeros((0, 2, WIDTH), np.float32)}, r"'embedding' has shape \[0, 2, 8\]"),
        ({"embedding": np.zeros((1, WIDTH), np.float32)}, r"'embedding' has shape \[1, 8\]"),
        ({"windows": np.array([[0]], np.int32)}, r"'windows' is \[0\].* one number from 1 to 2"),
        ({"windows": np.array([[3]], np.int32)}, r"'windows' is \[3\].* one number from 1 to 2"),
        ({"windows": np.array([1], np.int32)}, r"'windows' is \[1\] in shape \[1\]"),
        ({"windows": np.array([[1], [1]], np.int32)}, r"'windows' is \[1, 1\] in shape \[2, 1\]; .* each of 1 texts"),
    ],
)
def test_what_does_not_fit_is_refused_and_harms_no_one_else(embedding, change, message):
    good, stage = network_answer([2]), embedding()
    first, refused, last = stage.answer([good, {**good, **change}, good])
    assert refused.reason == "shape"
    with pytest.raises(type(refused), match=message):
        raise refused
    np.testing.assert_array_equal(first["embedding"], last["embedding"])
    np.testing.assert_array_equal(first["embedding"], stage.answer([good])[0]["embedding"])


def test_an_empty_row_of_windows_is_refused(embedding):
    inputs = {"embedding": np.zeros((1, 0, WIDTH), np.float32), "windows": np.array([[1]], np.int32)}
    assert "from 1 to 0" in str(embedding().answer([inputs])[0])


@pytest.mark.parametrize(
    ("mask", "windows"), [([[1, 1, 2]], [[1]]), ([[0, 0, 0]], [[0]]), ([[1, 0, 1]], [[1]]), ([[1, 1]], [[1]])]
)
def test_a_mask_that_does_not_fit_is_refused(embedding, mask, windows):
    inputs = {
        "hidden_states": np.zeros((1, 3, WIDTH), np.float32),
        "attention_mask": np.array(mask),
        "windows": np.array(windows, np.int32),
    }
    (answer,) = embedding(pooling="mean").answer([inputs])
    assert "attention_mask" in str(answer)


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("parameters", "tensor", "shape"),
    [
        ({}, "embedding", (1, 1, WIDTH)),
        ({"windows": "none"}, "embedding", (1, WIDTH)),
        ({"pooling": "mean"}, "hidden_states", (1, 2, WIDTH)),
        ({"pooling": "cls"}, "hidden_states", (1, 2, WIDTH)),
    ],
)
def test_a_vector_is_never_made_of_what_is_no_number(embedding, parameters, tensor, shape, number):
    inputs = {
        tensor: np.full(shape, number, np.float32),
        "windows": np.array([[1]], np.int32),
        "attention_mask": np.ones((1, 2), np.int64),
    }
    (answer,) = embedding(**parameters).answer([inputs])
    assert str(answer) == f"input {tensor!r}: not every number is finite"


def test_more_dimensions_than_the_network_has_keep_the_model_from_loading(embedding):
    with pytest.raises(InvalidParameter, match="'dimensions' is 9; the network gives 8"):
        embedding(dimensions="9")


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("dimensions", [None, 3])
def test_without_windows_every_vector_stands_for_itself(embedding, normalize, dimensions):
    options = {"dimensions": str(dimensions)} if dimensions else {}
    stage = embedding(windows="none", normalize=str(normalize).lower(), **options)
    requests = [np.random.default_rng(seed).normal(size=(seed + 1, WIDTH)).astype(np.float32) for seed in range(3)]
    for rows, answer in zip(requests, stage.answer([{"embedding": rows} for rows in requests]), strict=True):
        wanted = [expected(row[None], 1, normalize=normalize, dimensions=dimensions) for row in rows]
        np.testing.assert_allclose(answer["embedding"], wanted, atol=2e-6)


@pytest.mark.parametrize("shape", [(1, WIDTH - 1), (0, WIDTH), (1, 1, WIDTH)])
def test_vectors_of_another_shape_are_refused(embedding, shape):
    (answer,) = embedding(windows="none").answer([{"embedding": np.zeros(shape, np.float32)}])
    assert str(answer) == f"input 'embedding' has shape {list(shape)}; it must be [batch, {WIDTH}]"


def test_tokens_cannot_be_pooled_without_windows(embedding):
    with pytest.raises(InvalidParameter, match="'windows' is 'none', so 'pooling' must be too"):
        embedding(windows="none", pooling="mean")
