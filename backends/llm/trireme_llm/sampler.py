"""Chooses the next token of every row of logits, many rows at a time.

Order: penalties and biases, then what must not be chosen, then temperature, top-k, top-p over what top-k left, min-p.
A row's draw depends on its seed and its place in the text only, so company in the batch does not change it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from trireme_llm.adjust import adjust, apply_structure_masks
from trireme_llm.choice import Bits, Choice
from trireme_llm.errors import InvalidRequest
from trireme_llm.request import TokenLogprobs
from trireme_llm.stops import Token
from trireme_llm.truncation import draw_truncated


class TokenSampler:
    """Keeps nothing between steps but the threads that compute masks of structured outputs beside the model."""

    def __init__(self, mask_threads: int = 2) -> None:
        self._pool = ThreadPoolExecutor(mask_threads, thread_name_prefix="trireme-masks")
        self._masks: dict[Choice, Future[Bits]] = {}

    def prepare(self, choices: list[Choice]) -> None:
        """Start computing which tokens each structure allows."""
        self._masks = {
            choice: self._pool.submit(choice.structure.allowed_bits)
            for choice in choices
            if choice.structure is not None
        }

    def sample(self, logits: Tensor, choices: list[Choice]) -> list[Token | Exception]:
        """One token for each row of float32 (rows, vocabulary) logits, which are changed in place."""
        if not choices:
            return []
        logprobs = _before_adjusting(logits, choices)
        adjust(logits, choices)
        failed = apply_structure_masks(logits, choices, self._masks)
        chosen = _choose(logits, choices)
        reached = logits.gather(1, chosen[:, None])[:, 0] > float("-inf")
        tokens = chosen.tolist()
        return [
            failed.get(row) or (_token(tokens[row], logprobs.get(row)) if possible else _nothing_allowed())
            for row, possible in enumerate(reached.tolist())
        ]


def _nothing_allowed() -> Exception:
    return InvalidRequest("no token is left to choose from: what is allowed, banned and structured excludes each other")


def _choose(logits: Tensor, choices: Sequence[Choice]) -> Tensor:
    """int64 (rows,)"""
    chosen = logits.argmax(dim=-1)
    drawn = [row for row, choice in enumerate(choices) if choice.sampling.temperature > 0]
    if drawn:
        picked = [choices[row] for row in drawn]
        temperatures = torch.tensor([choice.sampling.temperature for choice in picked], device=logits.device)
        scaled = logits[drawn] / temperatures[:, None].clamp(min=1e-5)
        uniforms = torch.tensor([_uniform(choice) for choice in picked], dtype=torch.float64, device=logits.device)
        chosen[drawn] = draw_truncated(scaled, [choice.sampling for choice in picked], uniforms)
    return chosen


def _uniform(choice: Choice) -> float:
    """A number in [0, 1) that only the seed, the choice and the place in its output decide."""
    place = struct.pack("<qQQ", choice.seed, choice.sequence.choice, choice.sequence.num_output_tokens)
    return int.from_bytes(hashlib.blake2b(place, digest_size=8).digest(), "little") * 2.0**-64 * (1 - 2.0**-53)


class _RowLogprobs:
    """Log probabilities of one row, before anything was adjusted."""

    def __init__(self, row: Tensor, num_top: int) -> None:
        self._row = row
        self._num_top = num_top

    def of(self, token_id: int) -> TokenLogprobs:
        values, ids = self._row.topk(self._num_top) if self._num_top else (self._row[:0], self._row[:0])
        top = tuple((int(i), float(v)) for i, v in zip(ids.tolist(), values.tolist(), strict=True))
        return TokenLogprobs(float(self._row[token_id]), top)


def _before_adjusting(logits: Tensor, choices: Sequence[Choice]) -> dict[int, _RowLogprobs]:
    wanted = [row for row, choice in enumerate(choices) if choice.sampling.logprobs is not None]
    if not wanted:
        return {}
    logprobs = logits[wanted].log_softmax(dim=-1)
    return {row: _RowLogprobs(logprobs[index], choices[row].sampling.logprobs or 0) for index, row in enumerate(wanted)}


def _token(token_id: int, logprobs: _RowLogprobs | None) -> Token:
    return Token(token_id, None if logprobs is None else logprobs.of(token_id))
