"""The catalogue's sentence embedding and text classification: from a checkpoint to what the exporter writes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from torch import nn

from trireme_export.assembly import Assembly
from trireme_export.catalogue import SentenceEmbedding, TextClassification, TextWindows
from trireme_export.checkpoint import Checkpoint
from trireme_export.classifier_head import load_head
from trireme_export.dense import read_dense
from trireme_export.errors import CheckpointRefused
from trireme_export.files import sha256_of
from trireme_export.heads import WEIGHTS, read_head
from trireme_export.intake import family_of
from trireme_export.sentence_layout import SentenceLayout, read_layout
from trireme_export.steps import CpuPrecision
from trireme_export.text_assembly import TextModel, classification_assembly, embedding_assembly
from trireme_export.text_encoder import build_encoder, library_config
from trireme_export.text_golden import TextReference
from trireme_export.text_network import Pooling, TextNetwork
from trireme_export.text_original import TextOriginal
from trireme_export.text_placement import encode_of
from trireme_export.text_samples import ATTACK, BENIGN, EMPTY, HIDDEN_ATTACK, LONG, PLAIN
from trireme_export.text_tokenizer import read_tokenizer
from trireme_export.text_windows import position_count
from trireme_export.weights import read_weights


def assemble_embedding(task: SentenceEmbedding, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Text to vector, pooled and normalised as the checkpoint says."""
    return sentence_embedding(checkpoint, cache, task.windows, read_layout(checkpoint), precision="bf16")


def sentence_embedding(
    checkpoint: Checkpoint, cache: Path, windows: TextWindows, layout: SentenceLayout, *, precision: CpuPrecision
) -> Assembly:
    """Text to vector, as `layout` says."""
    width: int = library_config(checkpoint.read_object("config.json")).hidden_size
    dense = None if layout.dense is None else read_dense(checkpoint, layout.dense, width, cache)
    model = _read(checkpoint, cache, windows, layout.pooling, dense, precision=precision)
    return embedding_assembly(model, width if dense is None else dense.width, normalize=layout.normalize)


def assemble_classification(task: TextClassification, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Text to label, by our own head on the pooled vector."""
    head = load_head(task.head)
    pooling = read_layout(checkpoint).pooling
    model = _read(checkpoint, cache, task.windows, pooling, head, precision="bf16")
    requests = ([BENIGN], [ATTACK], [EMPTY], [LONG], [PLAIN, HIDDEN_ATTACK])
    assembly = classification_assembly(model, read_head(task.head), requests)
    return dataclasses.replace(assembly, further_inputs={f"{task.head.name}/{WEIGHTS}": sha256_of(task.head / WEIGHTS)})


def _read(  # noqa: PLR0913 - each is another part of the model
    checkpoint: Checkpoint,
    cache: Path,
    windows: TextWindows,
    pooling: Pooling,
    head: nn.Module | None = None,
    *,
    precision: CpuPrecision,
) -> TextModel:
    """An encoder, pooled, with an optional head of our own, or the Dense module of its layout."""
    config = checkpoint.read_object("config.json")
    weights = read_weights(checkpoint, cache)
    original = TextOriginal(build_encoder(config, weights, None), pooling, head)
    encoder = build_encoder(config, weights, "eager")
    network = TextNetwork(encoder, pooling, head, encode_of(family_of(config).placement, encoder)).eval()
    if windows.max_length > position_count(config):
        raise CheckpointRefused(
            f"{checkpoint.uri}: windows of {windows.max_length} tokens; it has {position_count(config)} positions"
        )
    reference = TextReference(original=original, tokenizer=read_tokenizer(checkpoint, config), windows=windows)
    return TextModel(
        checkpoint=checkpoint,
        vocabulary=config["vocab_size"],
        precision=precision,
        network=network,
        reference=reference,
    )
