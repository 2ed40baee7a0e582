"""The small head that makes a label of a sentence vector: as a module, and to and from its file."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from trireme_export.heads import WEIGHTS


class ClassifierHead(nn.Module):
    """Normalise, one hidden layer, logits: (..., D) -> (..., labels)."""

    def __init__(self, width: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden)
        self.output = nn.Linear(hidden, labels)

    def forward(self, vectors: Tensor) -> Tensor:
        unit = vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp(min=1e-12)
        logits: Tensor = self.output(functional.gelu(self.hidden(unit)))
        return logits


def load_head(folder: Path) -> ClassifierHead:
    """The head in `folder`, ready for inference; its sizes are those of its tensors."""
    tensors = load_file(folder / WEIGHTS)
    hidden, width = tensors["hidden.weight"].shape
    head = ClassifierHead(width, hidden, tensors["output.weight"].shape[0])
    head.load_state_dict(tensors, strict=True)
    return head.eval()
