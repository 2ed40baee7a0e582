"""The one configuration of an engine's process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import torch


class Precision(Enum):
    FP32 = "fp32"
    BF16 = "bf16"

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self is Precision.FP32 else torch.bfloat16


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """Read once, at the door; None: decided from the checkpoint and the machine."""

    checkpoint: Path
    precision: Precision = Precision.BF16
    max_length: int | None = None  # tokens of a sequence, prompt and output; None: the checkpoint's context
    kv_cache_bytes: int | None = None
    block_size: int = 16  # tokens
    max_batch_tokens: int = 2048  # per step
    max_running: int = 64  # sequences
    threads: int | None = None
