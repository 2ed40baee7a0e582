"""The head is fitted to frozen sentence vectors, all of them in every step. Same seeds, same numbers on one machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from trireme_export.classifier_head import ClassifierHead
from trireme_export.guard_head.figures import Floats, Labels

LABELS = 2
ABSENT = -1e9  # below every score


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The windows of texts: vectors, and which text each belongs to, in order."""

    vectors: NDArray[np.float32]  # (windows, D)
    texts: NDArray[np.int64]  # (windows,)

    def of(self, texts: NDArray[np.int64]) -> Windows:
        """Those of the given texts, which are renumbered from 0."""
        number = np.full(int(self.texts.max()) + 1, -1)
        number[texts] = np.arange(len(texts))
        own = number[self.texts]
        return Windows(vectors=self.vectors[own >= 0], texts=own[own >= 0])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How heads are fitted. Several with different seeds are averaged into one wide head."""

    hidden: int
    weight_decay: float
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    steps: int = 400
    learning_rate: float = 5e-3
    dropout: float = 0.3
    input_scale: float = 5.0  # unit vectors have tiny components; becomes part of the weights


def fit(windows: Windows, labels: Labels, settings: Settings) -> ClassifierHead:
    """The head whose largest score over a text's windows says whether it is an injection."""
    torch.use_deterministic_algorithms(True)
    return _averaged([_fit_one(windows, labels, settings, seed) for seed in settings.seeds])


def score_texts(head: ClassifierHead, windows: Windows) -> Floats:
    """(texts,): the probability of an injection, the largest of each text's windows."""
    with torch.inference_mode():
        margins = _margins(head(torch.from_numpy(windows.vectors).double()))
        return _largest(margins, torch.from_numpy(windows.texts)).sigmoid().numpy()


def _fit_one(windows: Windows, labels: Labels, settings: Settings, seed: int) -> ClassifierHead:
    torch.manual_seed(seed)
    vectors = functional.normalize(torch.from_numpy(windows.vectors), dim=-1) * settings.input_scale
    texts, wanted = torch.from_numpy(windows.texts), torch.from_numpy(labels).float()
    head = ClassifierHead(vectors.shape[1], settings.hidden, LABELS)
    network = nn.Sequential(head.hidden, nn.GELU(), nn.Dropout(settings.dropout), head.output)
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.steps)
    for _ in range(settings.steps):
        margins = _largest(_margins(network(vectors)), texts)
        loss = functional.binary_cross_entropy_with_logits(margins, wanted)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        head.hidden.weight *= settings.input_scale
    return head.eval()


def _averaged(heads: list[ClassifierHead]) -> ClassifierHead:
    """One head with all the hidden units, whose logits are the mean of theirs."""
    width, hidden = heads[0].hidden.in_features, heads[0].hidden.out_features
    merged = ClassifierHead(width, hidden * len(heads), LABELS)
    with torch.no_grad():
        merged.hidden.weight.copy_(torch.cat([head.hidden.weight for head in heads]))
        merged.hidden.bias.copy_(torch.cat([head.hidden.bias for head in heads]))
        merged.output.weight.copy_(torch.cat([head.output.weight for head in heads], dim=1) / len(heads))
        merged.output.bias.copy_(torch.stack([head.output.bias for head in heads]).mean(dim=0))
    return merged.double().eval()


def _margins(logits: Tensor) -> Tensor:
    """How far the logit of an injection is above the other: its probability is the sigmoid of that."""
    return logits[:, 1] - logits[:, 0]


def _largest(margins: Tensor, texts: Tensor) -> Tensor:
    """(texts,): the largest margin of each text's windows."""
    count = int(texts.max()) + 1
    return torch.full((count,), ABSENT, dtype=margins.dtype).scatter_reduce(0, texts, margins, "amax")
