"""Which golden samples of a token classifier hold its entities: those that no permitted difference changes."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from trireme_export.catalogue import TextWindows
from trireme_export.text_golden import TextReference
from trireme_export.text_original import Original
from trireme_export.token_golden import entities_sample
from trireme_export.token_labels import TokenLabelling

LABELS = ("O", "B-SHIP", "B-SEA")
WORDS = ("[UNK]", "row", "##ing")


class GivenLogits(Original):
    def __init__(self, *logits):
        self.logits = np.array(logits, np.float64)  # (words, labels)

    def row(self, ids, types=None):
        return self.logits[list(ids)]


def sample(aggregation, *logits):
    """The outputs for the text `rowing`, one word of two tokens with these logits."""
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    windows = TextWindows(max_length=8, overlap=1, max_windows=2, combine=None)
    reference = TextReference(original=GivenLogits((0, 0, 0), *logits), tokenizer=tokenizer, windows=windows)
    labelling = TokenLabelling(labels=LABELS, scheme="bio", aggregation=aggregation)
    return {output.name: output.values for output in entities_sample(reference, ["rowing"], labelling).outputs}


@pytest.mark.parametrize("sureness", [1.0, 3.0, 12.0, 40.0])
def test_two_tokens_as_sure_of_different_labels_are_not_checked(sureness):
    given = (0, sureness, 0), (0, 0, sureness + 1e-4)
    assert sample("max", *given).keys() == {"windows"}
    assert sample("first", *given).keys() == {"entities", "windows"}


def test_a_token_that_is_surer_by_far_is_checked():
    outputs = sample("max", (0, 1.0, 0), (0, 0, 3.0))
    (entity,) = json.loads(outputs["entities"].item())
    assert (entity["label"], entity["end"]) == ("SEA", 6)


def test_tokens_that_agree_are_checked_however_sure():
    assert "entities" in sample("max", (0, 3.0, 0), (0, 3.0, 0))


@pytest.mark.parametrize("aggregation", ["simple", "first", "average", "max"])
def test_a_label_whose_probability_is_no_number_but_0_warns_of_nothing(aggregation):
    assert "entities" in sample(aggregation, (0, 2000.0, 0), (0, 2000.0, 0))


def test_two_labels_of_a_token_that_are_near_each_other_are_not_checked():
    assert sample("simple", (0, 1.0, 1.001), (3.0, 0, 0)).keys() == {"windows"}
