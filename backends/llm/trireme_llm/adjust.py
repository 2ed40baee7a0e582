"""Changes logits before a token is chosen: penalties, biases, and what is forbidden. Only rows that ask are touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import numpy as np
import torch
from torch import Tensor

from trireme_llm.choice import Bits, Choice

NEVER = float("-inf")


def adjust(logits: Tensor, choices: Sequence[Choice]) -> None:
    """In place on float32 (rows, vocabulary)."""
    _penalize(logits, choices)
    _add_biases(logits, choices)
    _keep_allowed(logits, choices)
    _forbid(logits, [(*choice.sampling.banned_token_ids, *choice.banned_ends) for choice in choices])


def apply_structure_masks(
    logits: Tensor, choices: Sequence[Choice], masks: Mapping[Choice, Future[Bits]]
) -> dict[int, Exception]:
    """Forbid what the structures forbid; the rows whose structure failed, and why."""
    failed: dict[int, Exception] = {}
    for row, choice in enumerate(choices):
        if choice not in masks:
            continue
        try:
            bits = masks[choice].result()
        except Exception as error:  # one request's trouble is that request's answer
            failed[row] = error
            continue
        allowed = torch.from_numpy(np.unpackbits(bits, bitorder="little")[: logits.shape[1]]).bool()
        if choice.structure is not None and choice.structure.closed:
            allowed[list(choice.end_ids - choice.banned_ends)] = True
        logits[row, : len(allowed)].masked_fill_(~allowed.to(logits.device), NEVER)
        logits[row, len(allowed) :] = NEVER
    return failed


def _penalize(logits: Tensor, choices: Sequence[Choice]) -> None:
    """Presence and frequency count the output (OpenAI); repetition (Keskar et al., 2019) looks at the prompt too."""
    rows = [
        row
        for row, choice in enumerate(choices)
        if choice.sampling.presence_penalty or choice.sampling.frequency_penalty
    ]
    if rows:
        counts = _counts(logits, [_output(choices[row]) for row in rows])
        presence = _column([choices[row].sampling.presence_penalty for row in rows], logits)
        frequency = _column([choices[row].sampling.frequency_penalty for row in rows], logits)
        logits[rows] -= counts * frequency + (counts > 0) * presence
    rows = [row for row, choice in enumerate(choices) if choice.sampling.repetition_penalty != 1.0]
    if rows:
        seen = _counts(logits, [choices[row].sequence.tokens for row in rows]) > 0
        penalty = _column([choices[row].sampling.repetition_penalty for row in rows], logits)
        picked = logits[rows]
        logits[rows] = torch.where(seen, torch.where(picked > 0, picked / penalty, picked * penalty), picked)


def _output(choice: Choice) -> list[int]:
    return choice.sequence.tokens[choice.sequence.num_prompt_tokens :]


def _column(values: list[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]


def _counts(like: Tensor, token_ids: list[list[int]]) -> Tensor:
    """How often each token occurs: (rows, vocabulary)."""
    rows = np.repeat(np.arange(len(token_ids)), [len(ids) for ids in token_ids])
    columns = np.concatenate([np.array(ids, dtype=np.int64) for ids in token_ids])
    counts = torch.zeros((len(token_ids), like.shape[1]), dtype=like.dtype, device=like.device)
    index = (torch.from_numpy(rows).to(like.device), torch.from_numpy(columns).to(like.device))
    return counts.index_put_(index, torch.ones((), dtype=like.dtype, device=like.device), accumulate=True)


def _add_biases(logits: Tensor, choices: Sequence[Choice]) -> None:
    for row, choice in enumerate(choices):
        bias = choice.sampling.logit_bias
        if bias:
            logits[row, list(bias)] += torch.tensor(list(bias.values()), dtype=logits.dtype, device=logits.device)


def _keep_allowed(logits: Tensor, choices: Sequence[Choice]) -> None:
    for row, choice in enumerate(choices):
        if choice.sampling.allowed_token_ids is not None:
            kept = list(choice.sampling.allowed_token_ids)
            values = logits[row, kept]
            logits[row] = NEVER
            logits[row, kept] = values


def _forbid(logits: Tensor, forbidden: list[tuple[int, ...]]) -> None:
    rows = [row for row, ids in enumerate(forbidden) for _ in ids]
    if rows:
        logits[rows, [token_id for ids in forbidden for token_id in ids]] = NEVER
