"""A decoder over its paged cache: what the engine calls a runner."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from trireme_llm.attention import LayerCache
from trireme_llm.attention_plan import plan_step
from trireme_llm.decoder import Decoder
from trireme_llm.request import Request
from trireme_llm.sequence import Chunk


class ModelRunner:
    """Owns the cache."""

    def __init__(self, decoder: Decoder, num_blocks: int, block_size: int, fingerprint: str = "") -> None:
        self.decoder = decoder
        self._block_size = block_size
        self._fingerprint = fingerprint
        config = decoder.config
        shape = (len(config.layers), 2, num_blocks, block_size, config.num_kv_heads, config.head_dim)
        # Zeros, so that what pads a block table is a number: masked weights are zero, and zero times nan is not.
        self._cache = torch.zeros(shape, dtype=decoder.dtype, device=decoder.device)
        self._caches = [LayerCache(layer[0], layer[1]) for layer in self._cache]
        ropes = [layer.rope for layer in config.layers if layer.rope.depends_on_length]
        self._shared_up_to = min((rope.original_length for rope in ropes), default=None)

    def forward(self, chunks: list[Chunk]) -> Tensor:
        """float32 (sampling chunks, vocabulary) logits."""
        plan = plan_step(chunks, self._block_size, self.decoder.device)
        return self.decoder.forward(plan, self._caches, plan.sampled_rows)

    def forward_all(self, chunks: list[Chunk]) -> Tensor:
        """Logits after every token, to measure a text: float32 (tokens, vocabulary)."""
        plan = plan_step(chunks, self._block_size, self.decoder.device)
        return self.decoder.forward(plan, self._caches, torch.arange(len(plan.token_ids)))

    def root_hash(self, request: Request) -> bytes:
        """Prompts longer than the original context share only with prompts of their own length: see rope."""
        length = len(request.prompt)
        shared = self._shared_up_to is None or length <= self._shared_up_to
        name = f"{self._fingerprint}\n{request.adapter}\n{'' if shared else length}"
        return hashlib.blake2b(name.encode(), digest_size=16).digest()
