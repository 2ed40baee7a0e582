"""The frozen encoder turns texts into vectors, by the very graph that is exported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from trireme_export.catalogue import TextWindows
from trireme_export.checkpoint import Checkpoint
from trireme_export.guard_head.training import Windows
from trireme_export.progress import Advance
from trireme_export.sentence_layout import read_layout
from trireme_export.text_encoder import build_encoder
from trireme_export.text_network import TextNetwork
from trireme_export.text_original import split_into_windows
from trireme_export.text_tokenizer import read_tokenizer
from trireme_export.weights import read_weights

TOKENS_PER_BATCH = 4096
Ids = Sequence[int]


def embed_texts(
    texts: Sequence[str], encoder: Checkpoint, cache: Path, windows: TextWindows, advance: Advance
) -> Windows:
    """The pooled vectors of every window of `texts`."""
    config = encoder.read_object("config.json")
    network = TextNetwork(
        build_encoder(config, read_weights(encoder, cache), "eager"), read_layout(encoder).pooling
    ).eval()
    tokenizer = read_tokenizer(encoder, config)
    split = [split_into_windows(tokenizer, text, windows) for text in texts]
    sequences = [window.ids for own in split for window in own]
    vectors = np.zeros((len(sequences), config["hidden_size"]), np.float32)
    done = 0
    for batch in _batches(sequences):
        vectors[batch] = _vectors(network, [sequences[index] for index in batch])
        done += len(batch)
        advance(done, len(sequences))
    return Windows(vectors=vectors, texts=np.repeat(np.arange(len(split)), [len(own) for own in split]))


def _batches(sequences: Sequence[Ids]) -> Iterator[list[int]]:
    """Indices of sequences of about the same length, as many as fit the budget of tokens."""
    batch: list[int] = []
    for index in sorted(range(len(sequences)), key=lambda index: len(sequences[index])):
        if batch and len(sequences[index]) * (len(batch) + 1) > TOKENS_PER_BATCH:
            yield batch
            batch = []
        batch.append(index)
    yield batch


def _vectors(network: TextNetwork, sequences: Sequence[Ids]) -> NDArray[np.float32]:
    length = max(map(len, sequences))
    input_ids = torch.zeros(len(sequences), length, dtype=torch.int64)
    attention_mask = torch.zeros_like(input_ids)
    for row, ids in enumerate(sequences):
        input_ids[row, : len(ids)] = torch.tensor(ids)
        attention_mask[row, : len(ids)] = 1
    with torch.inference_mode():
        return network(input_ids, attention_mask)[:, 0].numpy()  # type: ignore[no-any-return]
