"""Draws from distributions cut by top-k, top-p (Holtzman et al., 2020) and min-p (Nguyen et al., 2024).

Sorting a whole vocabulary is slow, and nearly always needless: a first look at the likeliest tokens settles most rows,
exactly, because what a row keeps is a prefix of its sorted tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trireme_llm.request import SamplingParams

FIRST_LOOK = 1024  # tokens


def draw_truncated(logits: Tensor, sampling: Sequence[SamplingParams], uniforms: Tensor) -> Tensor:
    """int64 (rows,): for each row of float32 (rows, vocabulary) logits and a uniform number, a token."""
    vocabulary = logits.shape[1]
    top_k = torch.tensor([min(params.top_k or vocabulary, vocabulary) for params in sampling], device=logits.device)
    top_p = torch.tensor([params.top_p for params in sampling], dtype=torch.float64, device=logits.device)
    min_p = torch.tensor([params.min_p for params in sampling], dtype=torch.float64, device=logits.device)
    chosen = torch.empty(len(sampling), dtype=torch.int64, device=logits.device)
    pending = torch.arange(len(sampling), device=logits.device)
    for count in (min(FIRST_LOOK, vocabulary), vocabulary):
        if len(pending) == 0:
            break
        rows = logits[pending]
        likeliest, ids = rows.topk(count)
        kept, settled = _kept(rows, likeliest, (top_k[pending], top_p[pending], min_p[pending]))
        picked = _pick(likeliest, kept, uniforms[pending])
        chosen[pending[settled]] = ids.gather(1, picked[:, None])[settled, 0]
        pending = pending[~settled]
    return chosen


def _kept(rows: Tensor, likeliest: Tensor, limits: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """bool (rows, count): which of the sorted tokens stay; bool (rows,): whether none beyond them could."""
    top_k, top_p, min_p = limits
    count = likeliest.shape[1]
    in_top_k = torch.arange(count, device=rows.device)[None] < top_k[:, None]
    values = likeliest.double()
    # What top-k leaves sums to one again before top-p looks at it.
    within = torch.where(in_top_k, values, float("-inf")).logsumexp(dim=-1)
    total = torch.where(top_k <= count, within, rows.double().logsumexp(dim=-1))
    probabilities = (values - total[:, None]).exp()
    before = probabilities.cumsum(dim=-1) - probabilities
    in_top_p = (before < top_p[:, None]) | (top_p[:, None] >= 1.0)
    in_min_p = values >= values[:, :1] + min_p.log()[:, None]
    kept = in_top_k & in_top_p & in_min_p
    kept[:, 0] = True
    settled = ~kept[:, -1] | (top_k <= count)
    return kept, settled


def _pick(likeliest: Tensor, kept: Tensor, uniforms: Tensor) -> Tensor:
    """int64 (rows,): places among the sorted tokens, by inverse transform sampling."""
    weights = torch.where(kept, (likeliest - likeliest[:, :1]).double().exp(), 0.0)
    cumulative = weights.cumsum(dim=-1)
    targets = uniforms[:, None] * cumulative[:, -1:]
    places = torch.searchsorted(cumulative, targets, right=True)[:, 0]
    return torch.minimum(places, kept.sum(dim=-1) - 1)
