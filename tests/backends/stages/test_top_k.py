"""The stage `top_k` against a full sort in float64."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from trireme_triton.parameters import InvalidParameter

NAMES = tuple(f"label {index}" for index in range(12))
shared_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
logits_of_requests = st.lists(
    hnp.arrays(np.float32, st.tuples(st.integers(1, 4), st.just(12)), elements=st.floats(-90, 90, width=32)),
    min_size=1,
    max_size=4,
)


@pytest.fixture
def top_k(load, labels):
    return lambda **parameters: load("top_k", parameters, labels(*NAMES), sizes={"C": 12})


@pytest.mark.parametrize("function", ["softmax", "sigmoid"])
@shared_files
@given(logits_of_requests)
def test_the_k_best_are_given_best_first(top_k, function, requests):
    batch = [{"logits": logits} for logits in requests]
    for logits, answer in zip(requests, top_k(k="3", function=function).answer(batch), strict=True):
        exact = logits.astype(np.float64)
        scores = 1 / (1 + np.exp(-exact))
        if function == "softmax":
            powers = np.exp(exact - exact.max(axis=1, keepdims=True))
            scores = powers / powers.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(answer["score"], -np.sort(-scores, axis=1)[:, :3], atol=1e-6)
        indices = [[NAMES.index(label.decode()) for label in row] for row in answer["label"]]
        np.testing.assert_allclose(answer["score"], np.take_along_axis(scores, np.array(indices), axis=1), atol=1e-6)


def test_of_equal_scores_the_first_label_comes_first(top_k):
    (answer,) = top_k(k="4").answer([{"logits": np.zeros((1, 12), np.float32)}])
    assert answer["label"].tolist() == [[b"label 0", b"label 1", b"label 2", b"label 3"]]


def test_a_request_of_the_wrong_shape_is_refused_and_harms_no_one_else(top_k):
    good = {"logits": np.arange(12, dtype=np.float32)[None]}
    bad = {"logits": np.zeros((1, 11), np.float32)}
    empty = {"logits": np.zeros((0, 12), np.float32)}
    no_number = {"logits": np.full((1, 12), np.nan, np.float32)}
    answer, refused, also_refused, not_finite = top_k(k="1").answer([good, bad, empty, no_number])
    assert answer["label"].tolist() == [[b"label 11"]]
    assert str(refused) == "input 'logits' has shape [1, 11]; it must be [batch, 12]"
    assert "[0, 12]" in str(also_refused)
    assert str(not_finite) == "input 'logits': not every number is finite"


def test_more_labels_than_there_are_keep_the_model_from_loading(top_k):
    with pytest.raises(InvalidParameter, match="'k' is 13; there are 12 labels"):
        top_k(k="13")
