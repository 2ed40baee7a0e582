"""A user's own token classifier, of every family: its entities are those of the library's pipeline."""

import base64
import json
import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from transformers import AutoModelForTokenClassification
from trireme_export.installed import manifest_path
from trireme_export.runtimes import installed_runtimes
from trireme_network.run_on_openvino import OpenVino

from .conftest import run
from .exported_entry import ExportedEntry
from .library_entities import LibraryEntities
from .test_own_text import FAMILIES, encoded, network, packed, padded
from .tiny_models import TAGS, write_tiny_token_classifier

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = (
    "The three banks of oars moved as one.",
    "",
    "   a  trireme \t at dawn  ",
    "rowing: <pad> [PAD] [MASK] <mask> </s> Ünïcode 三段櫂船 🚣🏽‍♀️ 🌅x",
    "שלום at dawn مرحبا",
    "a\0b \ufeff one",
)
WORDS = "the three banks of oars moved as one trireme rows at dawn and the trireme rowed as oars and banks moved"
LONG = f"  {WORDS} 🚣 三段櫂船 " * 8


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """`exported(family)`: the folder of a checkpoint, and the repository that has its entry; each is made once."""
    made = {}

    def make(family, labels=TAGS):
        if (family, labels) not in made:
            folder = tmp_path_factory.mktemp(family) / "checkpoint"
            write_tiny_token_classifier(folder, family, labels)
            run(folder, "--repository", folder.parent / "repository")
            made[family, labels] = folder, folder.parent / "repository"
        return made[family, labels]

    return make


def window_of(repository):
    """Length and overlap, in tokens."""
    config = (repository / "checkpoint_preprocess/config.pbtxt").read_text()
    return (int(config.split(f'"{key}"')[1].split('"')[1]) for key in ("max_length", "window_overlap"))


def found(entry, *texts):
    return [json.loads(row.item()) for row in entry.answer(text=list(texts))["entities"]]


def check_entities(actual, expected):
    assert [without_score(entity) for entity in actual] == [without_score(entity) for entity in expected]
    scores = [[entity["score"] for entity in entities] for entities in (actual, expected)]
    np.testing.assert_allclose(*scores, atol=1e-4)


def without_score(entity):
    return {key: value for key, value in entity.items() if key != "score"}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_token_gets_the_librarys_logits(family, exported):
    folder, repository = exported(family)
    rows = encoded(folder)
    model = AutoModelForTokenClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        expected = [model(torch.tensor([row])).logits[0].numpy() for row in rows]
    for runtime in installed_runtimes(network(repository)):
        for answer, row in zip(runtime.run(padded(rows)), expected, strict=True):
            np.testing.assert_allclose(answer[: len(row)], row, atol=1e-3, err_msg=runtime.name)
            assert not answer[len(row) :].any()
    (served,) = OpenVino(network(repository)).open_streams(1, 1)  # it refuses what it cannot guard
    (answer,) = served(packed(rows)).values()
    np.testing.assert_allclose(answer[0], np.concatenate(expected), atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_entities_are_those_of_the_librarys_pipeline(family, exported):
    folder, repository = exported(family)
    entry, library = ExportedEntry(repository), LibraryEntities(folder)
    for text, actual in zip(TEXTS, found(entry, *TEXTS), strict=True):
        check_entities(actual, library.entities(text, *window_of(repository)))
    assert sum(len(library.entities(text, *window_of(repository))) for text in TEXTS) > 3


@pytest.mark.parametrize("family", FAMILIES)
def test_a_long_text_has_the_entities_of_its_windows_each_once(family, exported):
    folder, repository = exported(family)
    answer = ExportedEntry(repository).answer(text=["short", LONG])
    (short,), (windows,) = answer["windows"]
    assert (short, windows > 3) == (1, True)
    expected = LibraryEntities(folder).entities(LONG, *window_of(repository))
    actual = json.loads(answer["entities"][1].item())
    check_entities(actual, expected)
    assert all(one["end"] <= other["start"] for one, other in pairwise(actual))
    assert all(LONG[entity["start"] : entity["end"]] == entity["text"] for entity in actual)


@pytest.mark.parametrize("strategy", ["first", "average", "max"])
@pytest.mark.parametrize(
    "family", ["bert", *(pytest.param(name, marks=pytest.mark.slow) for name in ("roberta", "xlm-roberta"))]
)
def test_words_get_the_labels_that_the_librarys_pipeline_gives_them(family, strategy, exported):
    folder, repository = exported(family)
    (actual,) = found(ExportedEntry(repository, aggregation=strategy), WORDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the pipeline knows words by spaces only, which is the same for these
        check_entities(actual, LibraryEntities(folder, strategy).entities(WORDS, *window_of(repository)))


def test_labels_without_a_prefix_are_neighbours_with_the_same_label(exported):
    labels = ("NOUN", "VERB", "PUNCT")  # as of a tagger: every token is in a span
    folder, repository = exported("bert", labels)
    for text, actual in zip(TEXTS, found(ExportedEntry(repository), *TEXTS), strict=True):
        check_entities(actual, LibraryEntities(folder).entities(text, *window_of(repository)))


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
def test_golden_samples_say_what_the_pipeline_says(exported, strategy, tmp_path):
    folder, repository = exported("bert")
    if strategy != "simple":
        repository = tmp_path / "repository"
        run(folder, "--repository", repository, "--aggregation", strategy)
    assert f'string_value: "{strategy}"' in (repository / "checkpoint_postprocess/config.pbtxt").read_text()
    library = LibraryEntities(folder, strategy)
    checked = 0
    for sample in json.loads(manifest_path(repository, "checkpoint").read_bytes())["golden"]:
        texts = [base64.b64decode(text).decode() for text in sample["inputs"][0]["data_base64"]]
        for output in sample["outputs"]:
            if output["name"] == "entities":
                assert output["check"] == {"json_max_abs": 0.02}
                for text, expected in zip(texts, output["data_base64"], strict=True):
                    entities = library.entities(text, *window_of(repository))
                    check_entities(json.loads(base64.b64decode(expected)), entities)
                    checked += len(entities)
    assert checked > 10


def test_a_dry_run_says_what_was_found(exported, tmp_path):
    folder, _ = exported("bert")
    said = run(folder, "--repository", tmp_path / "repository", "--dry-run")
    for line in (
        "architecture: BertForTokenClassification",
        "task: token-classification",
        "labels: SHIP, SEA (bio: B begins a span, I continues one)",
        "every token labelled where most is seen around it",
        "would write checkpoint_postprocess/1/labels.json",
    ):
        assert line in said
    assert not (tmp_path / "repository").exists()
