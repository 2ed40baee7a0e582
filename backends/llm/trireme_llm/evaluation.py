"""How well a model predicts a text: perplexity, and how far its distribution is from the float32 one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trireme_llm.attention import PagedAttention
from trireme_llm.build import build_decoder
from trireme_llm.checkpoint import Checkpoint
from trireme_llm.engine_config import Precision
from trireme_llm.model_runner import ModelRunner
from trireme_llm.request import Output, Request
from trireme_llm.sequence import Chunk, Sequence

BLOCK_SIZE = 16


@dataclass(frozen=True)
class Evaluation:
    """Over every token of the text but the first of each window."""

    tokens: int
    perplexity: float
    kl_divergence: float  # nats per token, from float32 to this; 0 for float32 itself
    same_top_token: float  # share of positions


def evaluate(checkpoint: Checkpoint, token_ids: list[int], precision: Precision, window: int = 512) -> Evaluation:
    """Windows are independent; each begins with the text's first token, so that a beginning-of-sequence stays."""
    reference = _runner(checkpoint, Precision.FP32, window)
    subject = reference if precision is Precision.FP32 else _runner(checkpoint, precision, window)
    loss = divergence = agreeing = 0.0
    count = 0
    for part in _windows(token_ids, window):
        expected = _logits(reference, part).log_softmax(dim=-1)
        found = expected if subject is reference else _logits(subject, part).log_softmax(dim=-1)
        loss -= float(found.gather(1, torch.tensor(part[1:])[:, None]).sum())
        divergence += float((expected.exp() * (expected - found)).sum())
        agreeing += float((expected.argmax(dim=-1) == found.argmax(dim=-1)).sum())
        count += len(part) - 1
    return Evaluation(count, math.exp(loss / count), divergence / count, agreeing / count)


def _runner(checkpoint: Checkpoint, precision: Precision, window: int) -> ModelRunner:
    decoder = build_decoder(checkpoint.config, checkpoint.source, PagedAttention(), precision.dtype)
    return ModelRunner(decoder, -(-window // BLOCK_SIZE), BLOCK_SIZE)


def _windows(token_ids: list[int], window: int) -> Iterator[list[int]]:
    first, rest = token_ids[0], token_ids[1:]
    for start in range(0, len(rest), window - 1):
        yield [first, *rest[start : start + window - 1]]


class _Nobody:
    """Nobody waits for this text."""

    cancelled = False

    def emit(self, output: Output) -> None:
        raise AssertionError(f"a measured text has no output, but here is {output}")


def _logits(runner: ModelRunner, token_ids: list[int]) -> Tensor:
    """float64 (tokens - 1, vocabulary): what is predicted after each token but the last."""
    sequence = Sequence(
        request=Request(prompt=tuple(token_ids), sink=_Nobody()),
        choice=0,
        order=0,
        max_length=len(token_ids),
        root_hash=b"",
        tokens=token_ids,
        num_prompt_tokens=len(token_ids),
        blocks=list(range(-(-len(token_ids) // BLOCK_SIZE))),
    )
    return runner.forward_all([Chunk(sequence, 0, len(token_ids))])[:-1].double()
