"""A user's own text checkpoint, of every family: what is installed answers as the library does for that folder."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from trireme_export.commands import export
from trireme_export.runtimes import installed_runtimes

from .tiny_models import LABELS, TINY_FAMILIES, write_sentence_layout, write_tiny_classifier, write_tiny_encoder

TEXTS = (
    "The three banks of oars moved as one.",
    "rowing",
    "",
    "An ancient row: <pad> [PAD] [MASK] <mask> </s> Ünïcode 三段櫂船 🚣",
    "a trireme was moved at dawn",
)


def run(*arguments):
    """`trireme export ...`, which must succeed."""
    result = CliRunner().invoke(export, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


def network(repository: Path, name: str) -> Path:
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


def library_logits(folder, rows):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return np.stack([model(torch.tensor([row])).logits[0].numpy() for row in rows])


def library_hidden(folder, row):
    """(length, D)."""
    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(torch.tensor([row])).last_hidden_state[0]


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_a_classifier_gives_the_librarys_logits(family, tmp_path):
    folder, repository = tmp_path / "checkpoint", tmp_path / "repository"
    write_tiny_classifier(folder, family)
    run(folder, "--repository", repository)
    rows = encoded(folder)
    check_network(network(repository, "checkpoint"), rows, library_logits(folder, rows))
    assert json.loads((repository / "checkpoint_postprocess/1/labels.json").read_bytes()) == list(LABELS)


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_a_sentence_encoder_gives_the_mean_of_the_librarys_tokens(family, tmp_path):
    folder, repository = tmp_path / "checkpoint", tmp_path / "repository"
    write_tiny_encoder(folder, family)
    write_sentence_layout(folder, "mean", "Normalize")
    run(folder, "--repository", repository)
    rows = encoded(folder)
    expected = [library_hidden(folder, row).mean(dim=0).numpy() for row in rows]
    check_network(network(repository, "checkpoint"), rows, np.stack(expected))
