"""The head of a classifier of Transformers, for one vector per segment instead of a row of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class LibraryHead(nn.Module):
    """The library's own modules: they take (batch, length, D), look at the first token, and give (batch, labels).

    (batch, S, D) -> (batch, S, labels): every segment's vector is a row of a single token.
    """

    def __init__(self, classifier: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.steps = nn.Sequential(*(_step(classifier, name) for name in names))

    def forward(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.steps(rows.flatten(0, 1).unsqueeze(1))  # (batch * S, 1, D) -> (batch * S, labels)
        return logits.reshape(rows.shape[0], rows.shape[1], -1)


def _step(classifier: nn.Module, name: str) -> nn.Module:
    """`relu` is what a classifier applies without having a module for it."""
    return nn.ReLU() if name == "relu" else classifier.get_submodule(name)
