"""The stage `entities`: which labels make which spans, of tokens placed by hand."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trireme_triton.parameters import InvalidParameter
from trireme_triton.tensors import InvalidRequest

BIO = ("O", "B-A", "I-A", "B-Z", "I-Z")
BIOES = ("O", "B-A", "I-A", "E-A", "S-A", "S-Z")
BILOU = ("O", "B-A", "I-A", "L-A", "U-A", "U-Z")
BMES = ("O", "B-A", "M-A", "E-A", "S-A", "S-Z")
PLAIN = ("O", "A", "Z")
shared_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def entities(load, labels):
    def make(names=BIO, **parameters):
        return load("entities", parameters, labels(*names), sizes={"C": len(names)})

    return make


def tagged(names, *tags, strength=5.0):
    """A request with a text of one letter a token, and logits that say these tags."""
    logits = np.zeros((1, len(tags), len(names)), np.float32)
    for token, tag in enumerate(tags):
        logits[0, token, names.index(tag)] = strength
    spans = [[token, token + 1, token] for token in range(len(tags))]
    return request("abcdefghijklmnop"[: len(tags)], logits[0], spans)


def request(text, logits, spans):
    return {
        "text": np.array([[text if isinstance(text, bytes) else text.encode()]], object),
        "logits": np.array([logits], np.float32),
        "token_spans": np.array([spans], np.int32).reshape(1, -1, 3),
    }


def found(stage, inputs):
    (answer,) = stage.answer([inputs])
    return json.loads(answer["entities"].item())


def texts(stage, inputs):
    return " ".join(f"{entity['label']}:{entity['text']}" for entity in found(stage, inputs))


@pytest.mark.parametrize(
    ("scheme", "names", "tags", "spans"),
    [
        ("bio", BIO, "B-A I-A O B-A", "A:ab A:d"),
        ("bio", BIO, "B-A B-A I-A", "A:a A:bc"),
        ("bio", BIO, "I-A I-A O I-A", "A:ab A:d"),  # IOB1, or a model's mistake
        ("bio", BIO, "B-A I-Z I-Z I-A", "A:a Z:bc A:d"),
        ("bio", BIO, "O O O", ""),
        ("bioes", BIOES, "S-A S-A O B-A I-A E-A", "A:a A:b A:def"),
        ("bioes", BIOES, "B-A E-A E-A I-A", "A:ab A:c A:d"),
        ("bioes", BIOES, "I-A S-Z B-A B-A", "A:a Z:b A:c A:d"),
        ("bilou", BILOU, "U-A B-A I-A L-A U-Z", "A:a A:bcd Z:e"),
        ("bilou", BILOU, "B-A L-A I-A O L-A", "A:ab A:c A:e"),
        ("bmes", BMES, "B-A M-A E-A S-A", "A:abc A:d"),
        ("plain", PLAIN, "A A Z O Z A", "A:ab Z:c Z:e A:f"),
    ],
)
def test_neighbouring_labels_make_spans(entities, scheme, names, tags, spans):
    assert texts(entities(names, scheme=scheme), tagged(names, *tags.split())) == spans


def test_labels_without_an_outside_put_every_token_in_a_span(entities):
    names = ("NOUN", "VERB")
    assert texts(entities(names, scheme="plain"), tagged(names, "NOUN", "NOUN", "VERB")) == "NOUN:ab VERB:c"


def test_what_is_outside_can_have_another_name(entities):
    names = ("none", "A")
    assert texts(entities(names, scheme="plain", outside="none"), tagged(names, "A", "none", "A")) == "A:a A:c"


def test_an_entity_has_the_mean_score_of_its_tokens(entities):
    logits = np.log([[0.1, 0.6, 0.1, 0.1, 0.1], [0.05, 0.05, 0.8, 0.05, 0.05]])
    (entity,) = found(entities(), request("ab", logits, [[0, 1, 0], [1, 2, 1]]))
    assert entity == {"label": "A", "score": pytest.approx(0.7), "start": 0, "end": 2, "text": "ab"}


TWO_WORDS = request(
    "ab cd",
    np.log([[0.5, 0.4, 0.1], [0.05, 0.85, 0.1], [0.1, 0.6, 0.3], [0.04, 0.06, 0.9]]),
    [[0, 1, 0], [1, 2, 0], [3, 4, 1], [4, 5, 1]],
)


@pytest.mark.parametrize(
    ("aggregation", "spans"),
    [
        ("simple", [("A", 1, 4, (0.85 + 0.6) / 2), ("Z", 4, 5, 0.9)]),
        ("first", [("A", 3, 5, 0.6)]),
        ("average", [("A", 0, 2, (0.4 + 0.85) / 2), ("Z", 3, 5, (0.3 + 0.9) / 2)]),
        ("max", [("A", 0, 2, 0.85), ("Z", 3, 5, 0.9)]),
    ],
)
def test_a_token_or_a_word_is_given_a_label(entities, aggregation, spans):
    actual = found(entities(PLAIN, scheme="plain", aggregation=aggregation), TWO_WORDS)
    expected = [{"label": label, "start": start, "end": end} for label, start, end, _ in spans]
    assert [{key: entity[key] for key in ("label", "start", "end")} for entity in actual] == expected
    assert [entity["score"] for entity in actual] == pytest.approx([score for *_, score in spans])


def test_tokens_that_share_a_character_are_one(entities):
    names = PLAIN
    inputs = tagged(names, "A", "Z", "O", "Z") | request("🚣x", np.zeros((4, 3)), [[0, 1, 0]] * 3 + [[1, 2, 1]]) | {}
    inputs["logits"] = tagged(names, "A", "Z", "O", "Z")["logits"]
    assert texts(entities(names, scheme="plain"), inputs) == "A:🚣 Z:x"


def test_tokens_that_stand_nowhere_neither_make_spans_nor_part_them(entities):
    inputs = tagged(BIO, "B-Z", "B-A", "O", "I-A", "B-Z")
    inputs["token_spans"][0, [0, 2, 4]] = -1
    assert texts(entities(), inputs) == "A:bcd"
    inputs["token_spans"][:] = -1
    assert texts(entities(), inputs) == ""


@pytest.mark.parametrize("text", ["a\0", "🚣🏽‍♀️ naïve", "三段櫂船", "שלום", ' "quoted" \\ \n', "x" * 100_000])
def test_a_span_of_any_text_arrives_as_it_is(entities, text):
    inputs = request(text, [[0, 9, 0, 0, 0]], [[0, len(text), 0]])
    (entity,) = found(entities(), inputs)
    assert (entity["text"], entity["start"], entity["end"]) == (text, 0, len(text))


@shared_files
@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5), st.integers(0, 9))
def test_spans_are_of_the_text_in_order_and_apart(entities, parts, seed):
    """Tokens of random parts of random texts, some of which overlap."""
    random = np.random.default_rng(seed)
    batch = []
    for text in parts:
        starts = np.sort(random.integers(0, len(text), 6))
        ends = np.maximum.accumulate(np.minimum(starts + random.integers(1, 4, 6), len(text)))
        spans = np.stack([starts, ends, np.arange(6) // 2], axis=1)
        spans[random.random(6) < 0.2] = -1
        batch.append(request(text, random.normal(0, 3, (6, 5)), spans))
    for text, inputs, together in zip(parts, batch, entities().answer(batch), strict=True):
        actual = found(entities(), inputs)
        assert json.loads(together["entities"].item()) == actual
        places = [place for entity in actual for place in (entity["start"], entity["end"])]
        assert places == sorted(places)
        assert all(text[entity["start"] : entity["end"]] == entity["text"] != "" for entity in actual)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"logits": np.zeros((1, 2, 4), np.float32)}, r"'logits' has shape \[1, 2, 4\]; it must be \[1, tokens, 5\]"),
        ({"logits": np.zeros((2, 2, 5), np.float32)}, r"'logits' has shape \[2, 2, 5\]"),
        (
            {"token_spans": np.zeros((1, 3, 3), np.int32)},
            r"'token_spans' has shape \[1, 3, 3\]; it must be \[1, 2, 3\]",
        ),
        (
            {"token_spans": np.array([[[0, 1, 0], [1, 3, 0]]])},
            r"item 0: a span is empty, or ends after the 2 characters",
        ),
        ({"token_spans": np.array([[[0, 1, 0], [1, 1, 0]]])}, r"item 0: a span is empty"),
        ({"logits": np.full((1, 2, 5), np.nan, np.float32)}, r"'logits', item 0: not every number is finite"),
        ({"text": np.array([[b"a\xff"]], object)}, r"'text', item 0: not UTF-8: byte 0xff at offset 1"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_and_harms_no_other(entities, changes, said):
    good = tagged(BIO, "B-A", "I-A")
    before, refused, after = entities().answer([good, good | changes, good])
    assert isinstance(refused, InvalidRequest)
    with pytest.raises(InvalidRequest, match=said):
        raise refused
    assert before["entities"].item() == after["entities"].item()


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"scheme": "bioes"}, "'scheme' is 'bioes'; the label 'X-A' is not O or B-..., I-..., E-..., S-..."),
        ({"scheme": "iob"}, "'scheme' is 'iob'; it must be one of bio, bioes, bilou, bmes, plain"),
        ({"aggregation": "none"}, "'aggregation' is 'none'; it must be one of simple, first, average, max"),
        ({"threshold": "0.5"}, "unknown parameter 'threshold'; known are aggregation, labels, outside, scheme"),
    ],
)
def test_a_parameter_that_cannot_be_right_keeps_the_model_from_loading(entities, parameters, said):
    with pytest.raises(InvalidParameter) as refused:
        entities(("O", "X-A"), **parameters)
    assert said in str(refused.value)
