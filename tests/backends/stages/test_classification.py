"""The stage `classification` against NumPy in float64, text by text."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trireme_triton.parameters import InvalidParameter

NAMES = ("safe", "injection", "ünsure")
shared_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
logits_of_texts = st.lists(
    st.lists(st.lists(st.floats(-90, 90, width=32), min_size=3, max_size=3), min_size=1, max_size=4),
    min_size=1,
    max_size=4,
)


@pytest.fixture
def classification(load, labels):
    def make(names=NAMES, **parameters):
        return load("classification", parameters, labels(*names), sizes={"C": len(names)})

    return make


def network_answer(texts):
    """What a network gives for texts whose windows have these logits."""
    rows = np.zeros((len(texts), max(map(len, texts)), len(texts[0][0])), np.float32)
    for text, windows in enumerate(texts):
        rows[text, : len(windows)] = windows
    return {"logits": rows, "windows": np.array([[len(windows)] for windows in texts], np.int32)}


def softmax(logits):
    logits = np.array(logits, np.float64)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits):
    return 1 / (1 + np.exp(-np.array(logits, np.float64)))


@pytest.mark.parametrize(("function", "reference"), [("softmax", softmax), ("sigmoid", sigmoid)])
@shared_files
@given(logits_of_texts)
def test_scores_are_the_mean_of_the_windows_scores(classification, function, reference, texts):
    (answer,) = classification(function=function, windows="mean").answer([network_answer(texts)])
    for windows, scores, score, label in zip(texts, answer["scores"], answer["score"], answer["label"], strict=True):
        np.testing.assert_allclose(scores, reference(windows).mean(axis=0), atol=1e-6)
        assert score[0] == scores.max()
        assert label[0] == NAMES[scores.argmax()].encode()


@shared_files
@given(logits_of_texts)
def test_the_largest_sigmoid_of_each_label_counts(classification, texts):
    (answer,) = classification(function="sigmoid", windows="max").answer([network_answer(texts)])
    for windows, scores in zip(texts, answer["scores"], strict=True):
        np.testing.assert_allclose(scores, sigmoid(windows).max(axis=0), atol=1e-6)


@shared_files
@given(logits_of_texts)
def test_the_window_most_sure_of_the_positive_label_decides(classification, texts):
    stage = classification(threshold="0.5", positive_label="injection")
    (answer,) = stage.answer([network_answer(texts)])
    for windows, scores in zip(texts, answer["scores"], strict=True):
        reference = softmax(windows)
        np.testing.assert_allclose(scores[1], reference[:, 1].max(), atol=1e-6)
        assert np.abs(reference - scores).max(axis=1).min() < 1e-6  # one window's scores, all of them
        assert scores.sum() == pytest.approx(1, abs=1e-5)


@shared_files
@given(logits_of_texts)
def test_without_a_positive_label_the_surest_window_decides(classification, texts):
    (answer,) = classification().answer([network_answer(texts)])
    for windows, scores in zip(texts, answer["scores"], strict=True):
        assert scores.max() == pytest.approx(softmax(windows).max(), abs=1e-6)
        assert scores.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("function", ["softmax", "sigmoid"])
@shared_files
@given(logits_of_texts, st.floats(0, 1))
def test_the_positive_label_is_given_exactly_when_its_score_reaches_the_threshold(
    classification, function, texts, threshold
):
    stage = classification(function=function, threshold=repr(threshold), positive_label="injection")
    (answer,) = stage.answer([network_answer(texts)])
    for scores, score, label in zip(answer["scores"], answer["score"], answer["label"], strict=True):
        assert (label[0] == b"injection") == (scores[1] >= np.float32(threshold))
        if label[0] != b"injection":
            assert score[0] == max(scores[0], scores[2])
        assert score[0] == scores[[name.encode() for name in NAMES].index(label[0])]


def test_a_score_equal_to_the_threshold_reaches_it(classification):
    stage = classification(names=("no", "yes"), threshold="0.5", positive_label="yes")
    (answer,) = stage.answer([network_answer([[[1.5, 1.5]]])])
    assert answer["label"].tolist() == [[b"yes"]]


def test_the_first_of_equal_scores_is_given(classification):
    (answer,) = classification().answer([network_answer([[[2, 2, 2]]])])
    assert answer["label"].tolist() == [[b"safe"]]


@pytest.mark.parametrize("function", ["softmax", "sigmoid"])
def test_no_logit_is_too_large(classification, function):
    (answer,) = classification(function=function).answer([network_answer([[[1e38, -1e38, 0]]])])
    assert np.isfinite(answer["scores"]).all()
    assert answer["score"].tolist() == [[1]]


@shared_files
@given(st.lists(logits_of_texts, min_size=1, max_size=4))
def test_a_request_is_answered_the_same_alone_and_among_others(classification, requests):
    stage = classification(threshold="0.4", positive_label="injection")
    batch = [network_answer(texts) for texts in requests]
    for together, inputs in zip(stage.answer(batch), batch, strict=True):
        (alone,) = stage.answer([inputs])
        assert all(np.array_equal(together[name], alone[name]) for name in ("label", "score", "scores"))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("function", ["softmax", "sigmoid"])
def test_logits_that_are_no_numbers_are_refused_and_harm_no_one_else(classification, function, number):
    good, bad = network_answer([[[1, 2, 3]]]), network_answer([[[1, 2, 3], [1, number, 3]]])
    stage = classification(function=function, threshold="0.4", positive_label="injection")
    answer, refused = stage.answer([good, bad])
    assert str(refused) == "input 'logits': not every number is finite"
    assert answer["label"].tolist() == [[b"injection" if function == "sigmoid" else "ünsure".encode()]]


def test_numbers_of_absent_windows_do_not_count(classification):
    inputs = network_answer([[[1, 2, 3]], [[1, 2, 3], [3, 2, 1]]])
    inputs["logits"][0, 1] = np.nan
    (answer,) = classification().answer([inputs])
    assert np.isfinite(answer["scores"]).all()


def test_a_request_of_the_wrong_width_is_refused_and_harms_no_one_else(classification):
    good = network_answer([[[1, 2, 3]]])
    bad = {**good, "logits": np.zeros((1, 1, 2), np.float32)}
    answer, refused = classification().answer([good, bad])
    assert str(refused) == "input 'logits' has shape [1, 1, 2]; it must be [batch, windows, 3]"
    assert answer["label"].tolist() == [["ünsure".encode()]]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": "0.5"}, "go together"),
        ({"positive_label": "safe"}, "go together"),
        ({"threshold": "0.5", "positive_label": "danger"}, "'positive_label' is 'danger'; .* safe, injection, ünsure"),
        ({"threshold": "1.5", "positive_label": "safe"}, "'threshold' is '1.5'; it must be a number from 0 to 1"),
        ({"function": "argmax"}, "'function' is 'argmax'; it must be one of softmax, sigmoid"),
    ],
)
def test_parameters_that_make_no_sense_keep_the_model_from_loading(classification, parameters, message):
    with pytest.raises(InvalidParameter, match=message):
        classification(**parameters)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'["a", "b"]', "has 2 labels; the logits have width 3"),
        (b'{"a": 1}', "must be a JSON list of strings"),
        (b'["a", "b", 3]', "must be a JSON list of strings"),
        (b"a, b, c", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 200_000, "'labels': .* is not JSON"),
    ],
)
def test_labels_that_do_not_fit_keep_the_model_from_loading(load, content, message):
    with pytest.raises(InvalidParameter, match=message):
        load("classification", {}, {"labels.json": content}, sizes={"C": 3})
