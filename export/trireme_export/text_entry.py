"""Sentence embedding and text classification: from a checkpoint to everything the exporter writes and checks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn

from trireme_export.assembly import Assembly, GoldenSample, Tolerance
from trireme_export.catalogue import MAX_BATCH_SIZE, SentenceEmbedding, TextClassification, TextWindows
from trireme_export.checkpoint import Checkpoint
from trireme_export.classifier_head import load_head
from trireme_export.errors import CheckpointRefused
from trireme_export.files import sha256_of
from trireme_export.heads import WEIGHTS, read_head
from trireme_export.sentence_layout import SentenceLayout, read_layout
from trireme_export.steps import EntrySteps, classification_steps, embedding_steps
from trireme_export.text_encoder import build_encoder, read_tokenizer
from trireme_export.text_golden import TextReference, classification_sample, embedding_sample
from trireme_export.text_network import TextNetwork
from trireme_export.text_original import TextOriginal
from trireme_export.text_parity import text_parity_cases
from trireme_export.text_samples import ATTACK, BENIGN, EMOJI, EMPTY, HIDDEN_ATTACK, LONG, PARITY_TEXTS, PLAIN
from trireme_export.weights import read_weights

TOLERANCE = Tolerance(max_abs=1e-4, min_cosine=0.999999)
LOGITS_TOLERANCE = Tolerance(max_abs=1e-3, min_cosine=0.999999)


@dataclass(frozen=True, kw_only=True)
class _TextModel:
    """A checkpoint of a sentence encoder, read."""

    checkpoint: Checkpoint
    config: dict[str, Any]
    layout: SentenceLayout
    network: TextNetwork
    reference: TextReference


def assemble_embedding(task: SentenceEmbedding, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Text to vector, pooled and normalised as the checkpoint says."""
    model = _read(checkpoint, cache, task.windows)
    normalize = model.layout.normalize

    def golden() -> list[GoldenSample]:
        requests = ([PLAIN], [EMPTY], [LONG], [EMOJI, BENIGN])
        return [embedding_sample(model.reference, texts, normalize=normalize) for texts in requests]

    steps = embedding_steps(task, model.config["hidden_size"], normalize=normalize)
    return _assembly("sentence-embedding", model, steps, TOLERANCE, golden)


def assemble_classification(task: TextClassification, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Text to label, by our own head on the pooled vector."""
    head = read_head(task.head)
    model = _read(checkpoint, cache, task.windows, load_head(task.head))

    def golden() -> list[GoldenSample]:
        requests = ([BENIGN], [ATTACK], [EMPTY], [LONG], [PLAIN, HIDDEN_ATTACK])
        return [classification_sample(model.reference, texts, head) for texts in requests]

    steps = classification_steps(task, head)
    assembly = _assembly("text-classification", model, steps, LOGITS_TOLERANCE, golden)
    labels = json.dumps(head.labels).encode()
    further = {f"{task.head.name}/{WEIGHTS}": sha256_of(task.head / WEIGHTS)}
    return dataclasses.replace(
        assembly, files={**assembly.files, "postprocess/labels.json": labels}, further_inputs=further
    )


def _read(checkpoint: Checkpoint, cache: Path, windows: TextWindows, head: nn.Module | None = None) -> _TextModel:
    config = checkpoint.read_json("config.json")
    layout = read_layout(checkpoint)
    weights = read_weights(checkpoint, cache)
    if windows.max_length > config.get("max_position_embeddings", 0):
        positions = config.get("max_position_embeddings")
        raise CheckpointRefused(
            f"{checkpoint.uri}: windows of {windows.max_length} tokens; it has {positions} positions"
        )
    original = TextOriginal(build_encoder(config, weights, "sdpa"), layout.pooling, head)
    network = TextNetwork(build_encoder(config, weights, "eager"), layout.pooling, head).eval()
    tokenizer = read_tokenizer(checkpoint, config)
    reference = TextReference(original=original, tokenizer=tokenizer, windows=windows)
    return _TextModel(checkpoint=checkpoint, config=config, layout=layout, network=network, reference=reference)


def _assembly(
    task: str,
    model: _TextModel,
    steps: EntrySteps,
    tolerance: Tolerance,
    golden: Callable[[], list[GoldenSample]],
) -> Assembly:
    windows, vocabulary = model.reference.windows, model.config["vocab_size"]
    texts = [_ids(model.reference.tokenizer, text) for text in PARITY_TEXTS]
    output = steps.steps[1].outputs[0].name
    dynamic = {0: "batch", 1: "length"}
    return Assembly(
        task=task,
        network=model.network,
        example=_example(),
        dynamic={"input_ids": dynamic, "attention_mask": dynamic},
        output=output,
        ranges={"batch": (1, MAX_BATCH_SIZE), "length": (1, windows.max_length * windows.max_windows)},
        steps=steps,
        files={"preprocess/tokenizer.json": model.checkpoint.path("tokenizer.json").read_bytes()},
        tolerance=tolerance,
        parity_cases=lambda: text_parity_cases(model.reference.original, texts, vocabulary, windows.max_length),
        golden_samples=golden,
    )


def _example() -> dict[str, torch.Tensor]:
    """Two rows of two segments and padding; no size that the graph must not be bound to repeats."""
    mask = torch.tensor([[1, 1, 1, 1, 2, 2, 2, 0, 0], [1, 1, 2, 2, 2, 2, 2, 2, 2]])
    return {"input_ids": torch.arange(18).reshape(2, 9) + 1, "attention_mask": mask}


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text).ids
