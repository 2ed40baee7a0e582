"""A token classifier made wrong on purpose is refused: what was wrong, what is allowed, what to do."""

import pytest
from safetensors.torch import load_file, save_file
from trireme_export.errors import CheckpointRefused
from trireme_export.token_labels import read_token_labelling

from .test_wrong_checkpoints import edit, refusal, rewrite
from .tiny_models import write_tiny_classifier, write_tiny_encoder, write_tiny_token_classifier


@pytest.fixture
def tagger(tmp_path):
    write_tiny_token_classifier(tmp_path / "own", "bert")
    return tmp_path / "own"


def named(*labels):
    return {"id2label": {str(index): label for index, label in enumerate(labels)}}


def test_another_number_of_labels_than_the_head_has(tagger):
    edit(tagger / "config.json", **named("O", "B-SHIP", "I-SHIP"), label2id=None)
    assert "names 3 labels, but classifier.weight has rows for 5" in refusal(tagger)


def test_labels_in_another_order(tagger):
    edit(tagger / "config.json", label2id={"O": 1, "B-SHIP": 0, "I-SHIP": 2, "B-SEA": 3, "I-SEA": 4})
    assert "id2label and label2id contradict each other" in refusal(tagger)


def test_a_head_that_is_missing(tagger):
    rewrite(tagger / "model.safetensors", lambda tensors: tensors.pop("classifier.weight"))
    assert "missing: classifier.weight" in refusal(tagger)


def test_an_encoder_that_says_it_is_a_token_classifier(tmp_path):
    write_tiny_encoder(tmp_path / "own", "bert")
    assert "the tensors do not fit; missing: " in refusal(tmp_path / "own", "--task", "token-classification")


def test_a_head_that_is_another_tasks(tmp_path):
    """DistilBERT's classifier of texts has a layer more."""
    write_tiny_classifier(tmp_path / "own", "distilbert", labels=("O", "B-SHIP", "I-SHIP"))
    said = refusal(tmp_path / "own", "--task", "token-classification")
    assert "not used by this architecture: pre_classifier.bias, pre_classifier.weight" in said


def test_another_familys_architecture(tagger):
    edit(tagger / "config.json", architectures=["RobertaForTokenClassification"])
    assert "the classifier of model_type bert is BertForTokenClassification" in refusal(tagger)


def test_a_tensor_that_is_left_over(tagger):
    tensors = load_file(tagger / "model.safetensors")
    save_file(tensors | {"crf.transitions": tensors["classifier.bias"].clone()}, tagger / "model.safetensors")
    assert "not used by this architecture: crf.transitions" in refusal(tagger)


def test_a_pooling(tagger):
    assert "--pooling is for sentence embedding" in refusal(tagger, "--pooling", "mean")


def test_an_aggregation_of_what_has_no_tokens_to_label(tmp_path):
    write_tiny_classifier(tmp_path / "own", "bert")
    said = refusal(tmp_path / "own", "--aggregation", "first")
    assert "--aggregation is for token classification, not for text-classification: leave it out" in said


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (("O", "B-SHIP", "I-SHIP", "SEA"), "has the label SEA beside B-SHIP"),
        (("B-SHIP", "I-SHIP"), "no label O for what is in no span"),
        (("O", "B-SHIP", "I-SHIP", "E-SHIP", "L-SEA"), "has the prefixes B, E, I, L, which no scheme has together"),
        (("O", "S-SHIP", "B-SHIP", "I-SHIP"), "has B-SHIP without E-SHIP; the scheme bioes needs both"),
        (("O", "S-SHIP", "E-SHIP"), "has E-SHIP without B-SHIP"),
        (("O", "U-SHIP", "I-SHIP"), "has I-SHIP without B-SHIP; the scheme bilou needs both"),
        (("O",), "nothing that a span could be"),
    ],
)
def test_labels_that_make_no_spans(labels, said):
    with pytest.raises(CheckpointRefused, match=said):
        read_token_labelling(named(*labels))


@pytest.mark.parametrize(
    ("labels", "scheme", "kinds"),
    [
        (("O", "B-SHIP", "I-SHIP"), "bio", ("SHIP",)),
        (("I-SHIP", "B-SEA", "I-SEA", "O"), "bio", ("SHIP", "SEA")),  # IOB1: no ship was right after another
        (("O", "B-x-y", "I-x-y"), "bio", ("x-y",)),
        (("O", "B-SHIP", "I-SHIP", "E-SHIP", "S-SHIP"), "bioes", ("SHIP",)),
        (("O", "B-SHIP", "I-SHIP", "L-SHIP", "U-SHIP"), "bilou", ("SHIP",)),
        (("O", "B-SHIP", "M-SHIP", "E-SHIP", "S-SHIP"), "bmes", ("SHIP",)),
        (("O", "SHIP", "SEA"), "plain", ("SHIP", "SEA")),
        (("NOUN", "VERB"), "plain", ("NOUN", "VERB")),
        (("O", "SHIP-B", "X-1"), "plain", ("SHIP-B", "X-1")),
    ],
)
def test_labels_say_their_scheme(labels, scheme, kinds):
    labelling = read_token_labelling(named(*labels))
    assert (labelling.labels, labelling.scheme, labelling.kinds) == (labels, scheme, kinds)
