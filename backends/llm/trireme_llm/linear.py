"""The linear seam: everything that multiplies by a weight goes through here.

A layer is split over devices, once there are several, by output (q, k, v, gate, up, head) or by input (attention
output, down), which is how the decoder calls them; what is behind the seam decides how the weight is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn import functional


class Linear(Protocol):
    """y = x W^T + b"""

    def __call__(self, x: Tensor) -> Tensor:
        """(rows, in) -> (rows, out)"""


@dataclass(frozen=True)
class DenseLinear:
    """The plain reference: the weight as the checkpoint has it, in the type the model computes in."""

    weight: Tensor  # (out, in); may be a view of the mapped file
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)
