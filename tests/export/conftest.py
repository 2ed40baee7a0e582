"""Checkpoints made on the spot, and the default entries."""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel
from trireme_export.catalogue import CATALOGUE, Entry, SentenceEmbedding, Source, TextWindows
from trireme_export.checkpoint import Checkpoint, open_checkpoint
from trireme_export.commands import export
from trireme_export.fetch import fetch_first

PROJECT = Path(__file__).resolve().parents[2]
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] a three banks of oars the row moved as one rowing at dawn trireme was an ancient"
WORDS = VOCABULARY.split()


@pytest.fixture
def folder(tmp_path):
    """Where a test writes its checkpoint."""
    return tmp_path / "checkpoint"


@pytest.fixture
def repository(tmp_path):
    """Where a test exports to."""
    return tmp_path / "repository"


@pytest.fixture(scope="session")
def cache() -> Path:
    """The project's own cache: what `make test` has fetched is not fetched again."""
    return PROJECT / ".cache" / "trireme"


@pytest.fixture(scope="session")
def minilm(cache: Path) -> Checkpoint:
    return fetch_first(CATALOGUE["embed"].sources, cache, lambda done, total: None)


@pytest.fixture(scope="session")
def lite0(cache: Path) -> Checkpoint:
    return fetch_first(CATALOGUE["vision"].sources, cache, lambda done, total: None)


def write_tiny_checkpoint(folder: Path) -> None:
    """A sentence encoder with random weights, as sentence-transformers lays it out."""
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    model = BertModel(config)
    for parameter in model.parameters():  # fresh norms and biases are ones and zeros, which would hide mistakes
        parameter.data = torch.randn_like(parameter) * 0.3
    (folder / "1_Pooling").mkdir(parents=True)
    save_file(model.state_dict(), folder / "model.safetensors")
    write_json(folder / "config.json", {key: value for key, value in config.to_dict().items() if value is not None})
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    write_json(
        folder / "modules.json",
        [
            {"idx": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(modules)
        ],
    )
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True})
    tiny_tokenizer().save(str(folder / "tokenizer.json"))


def tiny_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(8)  # as published checkpoints do; the exporter must not follow
    return tokenizer


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    """A fresh checkpoint that a test may damage."""
    folder = tmp_path / "tiny"
    write_tiny_checkpoint(folder)
    return folder


@pytest.fixture
def tiny(tiny_folder: Path) -> Checkpoint:
    return open_checkpoint("tiny", tiny_folder)


def tiny_entry(folder: Path) -> Entry:
    """An entry of the tiny checkpoint, with windows of 16 tokens."""
    windows = TextWindows(max_length=16, overlap=4, max_windows=8, combine="mean")
    return Entry(name="tiny", sources=(Source(uri=str(folder)),), task=SentenceEmbedding(windows=windows))


@pytest.fixture(scope="module")
def one_thread():
    """Networks this small are only slowed down by several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(*arguments: object) -> str:
    """`trireme export ...`, which must succeed; what it said."""
    result = CliRunner().invoke(export, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output
