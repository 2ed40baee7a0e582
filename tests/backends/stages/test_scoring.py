"""The stage `score` against NumPy in float64, text by text."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trireme_triton.parameters import InvalidParameter
from trireme_triton.tensors import InvalidRequest

shared_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
logits_of_texts = st.lists(st.lists(st.floats(-90, 90, width=32), min_size=1, max_size=4), min_size=1, max_size=4)


def network_answer(texts):
    """What a network gives for texts whose windows have these logits."""
    rows = np.zeros((len(texts), max(map(len, texts)), 1), np.float32)
    for text, windows in enumerate(texts):
        rows[text, : len(windows), 0] = windows
    return {"logits": rows, "windows": np.array([[len(windows)] for windows in texts], np.int32)}


def sigmoid(logits):
    return 1 / (1 + np.exp(-np.array(logits, np.float64)))


@pytest.mark.parametrize(("function", "reference"), [("sigmoid", sigmoid), ("identity", np.array)])
@pytest.mark.parametrize(("windows", "combine"), [("max", np.max), ("mean", np.mean)])
@shared_files
@given(st.lists(logits_of_texts, min_size=1, max_size=3))
def test_a_text_has_the_best_or_the_mean_score_of_its_windows(load, function, reference, windows, combine, requests):
    stage = load("score", {"function": function, "windows": windows})
    for texts, answer in zip(requests, stage.answer([network_answer(texts) for texts in requests]), strict=True):
        expected = [[combine(reference(logits))] for logits in texts]
        np.testing.assert_allclose(answer["score"], expected, rtol=1e-5, atol=1e-6)


def test_a_request_that_does_not_fit_is_refused_and_harms_no_other(load):
    good = network_answer([[1.0, 2.0]])
    before, refused, after = load("score").answer([good, good | {"windows": np.array([[3]], np.int32)}, good])
    assert isinstance(refused, InvalidRequest)
    assert isinstance(load("score").answer([network_answer([[np.nan]])])[0], InvalidRequest)
    assert before["score"] == after["score"]


def test_a_function_that_is_not_known_keeps_the_model_from_loading(load):
    with pytest.raises(InvalidParameter, match="'function' is 'softmax'; it must be one of sigmoid, identity"):
        load("score", {"function": "softmax"})
    with pytest.raises(InvalidParameter, match="unknown parameter 'labels'; known are function, windows"):
        load("score", {"labels": "labels.json"})
