"""A user's own text checkpoint, of every family: what is installed answers as the library does for that folder."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from trireme_export.commands import export
from trireme_export.installed import manifest_path
from trireme_export.rollback import report_versions
from trireme_export.runtimes import installed_runtimes
from trireme_export.text_samples import BENIGN
from trireme_export.versions import read_versions
from trireme_network.run_on_openvino import OpenVino

from .conftest import run
from .tiny_models import (
    LABELS,
    TINY_FAMILIES,
    write_dense,
    write_sentence_layout,
    write_tiny_classifier,
    write_tiny_encoder,
)

pytestmark = pytest.mark.usefixtures("one_thread")

QUICK = ("bert", "roberta", "deberta-v3", "modernbert")  # the others each have a sister here with nearly the same graph
TEXTS = (
    "The three banks of oars moved as one.",
    "rowing",
    "",
    "An ancient row: <pad> [PAD] [MASK] <mask> </s> Ünïcode 三段櫂船 🚣",
    "a trireme was moved at dawn",
)


def network(repository: Path, name: str = "checkpoint") -> Path:
    return repository / f"{name}_network" / "1" / "model.onnx"


def encoded(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return [tokenizer(text, truncation=True, max_length=48)["input_ids"] for text in TEXTS]


def padded(rows):
    length = max(map(len, rows)) + 3
    ids = np.array([[*row, *[1] * (length - len(row))] for row in rows])
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


def packed(rows):
    mask = [number for number, row in enumerate(rows, start=1) for _ in row]
    return {"input_ids": np.array([np.concatenate(rows)]), "attention_mask": np.array([mask])}


def check_network(path, rows, expected):
    """Every runtime gives the rows of the library, in a batch and side by side in one row."""
    for runtime in installed_runtimes(path):
        np.testing.assert_allclose(runtime.run(padded(rows))[:, 0], expected, atol=2e-5, err_msg=runtime.name)
        np.testing.assert_allclose(runtime.run(packed(rows))[0], expected, atol=2e-5, err_msg=runtime.name)
    (served,) = OpenVino(path).open_streams(1, 1)  # what the stand-in does: it refuses what it cannot guard
    (answer,) = served(packed(rows)).values()
    np.testing.assert_allclose(answer[0], expected, atol=2e-5)


def golden_scores(repository, name="checkpoint"):
    samples = json.loads(manifest_path(repository, name).read_bytes())["golden"]
    return [output["data"] for sample in samples for output in sample["outputs"] if output["name"] == "scores"]


def library_logits(folder, rows):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return np.stack([model(torch.tensor([row])).logits[0].numpy() for row in rows])


def library_hidden(folder, row):
    """(length, D)."""
    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(torch.tensor([row])).last_hidden_state[0]


FAMILIES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in TINY_FAMILIES]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_classifier_gives_the_librarys_logits(family, folder, repository):
    write_tiny_classifier(folder, family)
    run(folder, "--repository", repository)
    rows = encoded(folder)
    check_network(network(repository), rows, library_logits(folder, rows))
    assert json.loads((repository / "checkpoint_postprocess/1/labels.json").read_bytes()) == list(LABELS)


@pytest.mark.slow
@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_a_sentence_encoder_gives_the_mean_of_the_librarys_tokens(family, folder, repository):
    write_tiny_encoder(folder, family)
    write_sentence_layout(folder, "mean", "Normalize")
    run(folder, "--repository", repository)
    rows = encoded(folder)
    expected = [library_hidden(folder, row).mean(dim=0).numpy() for row in rows]
    check_network(network(repository), rows, np.stack(expected))


def test_a_sentence_encoder_has_its_own_dense_layer_and_pools_the_first_token(folder, repository):
    write_tiny_encoder(folder, "roberta")
    write_sentence_layout(folder, "cls", "Dense", "Normalize")
    dense = write_dense(folder / "2_Dense")
    run(folder, "--repository", repository)
    rows = encoded(folder)
    with torch.inference_mode():
        expected = torch.stack([torch.tanh(dense(library_hidden(folder, row)[0])) for row in rows])
    check_network(network(repository), rows, expected.numpy())
    assert 'key: "normalize"' in (repository / "checkpoint_postprocess/config.pbtxt").read_text()


def test_a_bare_encoder_is_pooled_as_asked(folder, repository):
    write_tiny_encoder(folder, "bert")
    asked = ("--task", "sentence-embedding", "--pooling", "cls", "--name", "own")
    said = run(folder, "--repository", repository, *asked, "--dry-run")
    assert "pooling: cls" in said
    assert "normalise: no" in said
    assert "would write own_network/1/model.onnx" in said


def test_weights_in_several_files_are_read(folder, repository):
    write_tiny_classifier(folder, "bert")
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    assert "would write checkpoint_network/1/model.onnx" in run(folder, "--repository", repository, "--dry-run")


def test_a_pickle_is_read_when_it_is_allowed(folder, repository, monkeypatch, tmp_path):
    monkeypatch.setenv("TRIREME_CACHE", str(tmp_path / "cache"))
    write_tiny_classifier(folder, "bert")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    said = run(folder, "--repository", repository, "--allow-pickle", "--dry-run")
    assert "architecture: BertForSequenceClassification" in said


def test_a_dry_run_says_what_was_found_and_writes_nothing(folder, repository):
    write_tiny_classifier(folder, "bert")
    said = run(folder, "--repository", repository, "--dry-run")
    for line in (
        "architecture: BertForSequenceClassification",
        "task: text-classification",
        "labels: calm, storm, fog (softmax: one of them)",
        "window: 66 tokens",
        "long texts: split into",
        "network: fp32, as onnx for the backend onnxruntime",
        "would write checkpoint/config.pbtxt",
        "would write checkpoint_postprocess/1/labels.json",
    ):
        assert line in said
    assert not repository.exists()


@pytest.fixture(scope="module")
def multi_label(tmp_path_factory):
    """The folder of a checkpoint whose labels do not exclude each other, and the repository that has its entry."""
    folder = tmp_path_factory.mktemp("multi-label") / "checkpoint"
    write_tiny_classifier(folder, "bert", problem_type="multi_label_classification")
    run(folder, "--repository", folder.parent / "repository")
    return folder, folder.parent / "repository"


def test_labels_that_do_not_exclude_each_other_get_the_sigmoid(multi_label):
    folder, repository = multi_label
    (scores, *_) = golden_scores(repository)
    (logits,) = library_logits(folder, [AutoTokenizer.from_pretrained(folder)(BENIGN)["input_ids"]])
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits)), atol=1e-5)


def test_what_is_there_is_not_exported_again(multi_label):
    folder, repository = multi_label
    assert "exported and intact" in run(folder, "--repository", repository)


@pytest.mark.parametrize(
    ("options", "advice"),
    [([], "say --name checkpoint to make this its next version"), (["--name", "checkpoint_network"], "choose another")],
    ids=["whose folder is called the same", "whose name is that of a model"],
)
def test_an_entry_is_not_replaced_by_another_checkpoint(multi_label, tmp_path, options, advice):
    folder, repository = multi_label
    before = network(repository).read_bytes()
    write_tiny_classifier(tmp_path / "checkpoint", "bert")
    result = CliRunner().invoke(export, [str(tmp_path / "checkpoint"), *options, "--repository", str(repository)])
    assert result.exit_code == 6
    assert f"has an entry checkpoint of {folder}; " in result.stderr
    assert advice in result.stderr
    assert network(repository).read_bytes() == before


def test_another_checkpoint_follows_as_the_next_version_if_it_is_given_the_name(multi_label, tmp_path):
    folder, repository = multi_label
    shutil.copytree(repository, tmp_path / "models", symlinks=True)
    write_tiny_classifier(tmp_path / "run-42", "bert")
    run(tmp_path / "run-42", "--name", "checkpoint", "--repository", tmp_path / "models")
    sources = {each.version: each.source for each in report_versions(tmp_path / "models", "checkpoint")}
    assert sources == {1: str(folder), 2: str(tmp_path / "run-42")}
    assert read_versions(tmp_path / "models", "checkpoint").active == 2
