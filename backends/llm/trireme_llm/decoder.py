"""The forward pass of every supported family: one decoder, driven by its DecoderConfig."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from trireme_llm.attention import Attention, AttentionShape, LayerCache
from trireme_llm.attention_plan import AttentionPlan
from trireme_llm.decoder_config import Activation, DecoderConfig, ExpertsConfig, LayerConfig, RopeConfig
from trireme_llm.linear import Linear
from trireme_llm.rope import Rope, rotate

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.SILU: functional.silu,
    Activation.GELU: functional.gelu,
    Activation.GELU_TANH: partial(functional.gelu, approximate="tanh"),
}


@dataclass(frozen=True)
class FeedForward:
    """Gated: down(activation(gate(x)) * up(x))."""

    gate: Linear
    up: Linear
    down: Linear

    def __call__(self, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        return self.down(activation(self.gate(x)) * self.up(x))


@dataclass(frozen=True)
class Experts:
    """A router and the blocks it chooses from."""

    config: ExpertsConfig
    router: Linear
    experts: tuple[FeedForward, ...]

    def __call__(self, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        weights, chosen = self.router(x).float().softmax(dim=-1).topk(self.config.per_token)
        if self.config.renormalize:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(x)
        for index in torch.unique(chosen).tolist():
            rows, place = (chosen == index).nonzero(as_tuple=True)
            expert_out = self.experts[index](x[rows], activation)
            out.index_add_(0, rows, expert_out * weights[rows, place, None].to(x.dtype))
        return out


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The weights of one block. Norms that a family lacks are None."""

    config: LayerConfig
    input_norm: Tensor
    q: Linear
    k: Linear
    v: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    output: Linear
    after_attention_norm: Tensor | None
    feed_forward_norm: Tensor
    feed_forward: FeedForward | Experts
    after_feed_forward_norm: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Token ids in, logits out; keys and values go to the cache that is passed in."""

    config: DecoderConfig
    embedding: Tensor  # (vocabulary, hidden)
    layers: tuple[Layer, ...]
    norm: Tensor
    head: Linear
    attention: Attention

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def _ropes(self) -> set[RopeConfig]:
        return {layer.config.rope for layer in self.layers}

    @torch.inference_mode()
    def forward(self, plan: AttentionPlan, caches: list[LayerCache], rows: Tensor) -> Tensor:
        """float32 (rows, vocabulary): logits after the step's tokens at `rows`."""
        x = self.embedding[plan.token_ids]
        if self.config.embedding_scale != 1.0:
            x = x * torch.tensor(self.config.embedding_scale, dtype=x.dtype)
        cos_sin = {rope: self._cos_sin(Rope(rope, self.device), plan) for rope in self._ropes}
        for layer, cache in zip(self.layers, caches, strict=True):
            x = self._block(x, layer, cache, plan, cos_sin[layer.config.rope])
        return self._logits(x[rows])

    def _cos_sin(self, rope: Rope, plan: AttentionPlan) -> tuple[Tensor, Tensor]:
        cos, sin = rope.cos_sin(plan.positions, plan.rope_lengths)
        return cos.to(self.dtype), sin.to(self.dtype)

    def _block(
        self, x: Tensor, layer: Layer, cache: LayerCache, plan: AttentionPlan, cos_sin: tuple[Tensor, Tensor]
    ) -> Tensor:
        attended = self._attend(self._norm(x, layer.input_norm), layer, cache, plan, cos_sin)
        x = x + self._maybe_norm(attended, layer.after_attention_norm)
        activation = ACTIVATIONS[self.config.activation]
        fed = layer.feed_forward(self._norm(x, layer.feed_forward_norm), activation)
        return x + self._maybe_norm(fed, layer.after_feed_forward_norm)

    def _attend(
        self, x: Tensor, layer: Layer, cache: LayerCache, plan: AttentionPlan, cos_sin: tuple[Tensor, Tensor]
    ) -> Tensor:
        config = self.config
        q = layer.q(x).view(-1, config.num_heads, config.head_dim)
        k = layer.k(x).view(-1, config.num_kv_heads, config.head_dim)
        v = layer.v(x).view(-1, config.num_kv_heads, config.head_dim)
        q, k = self._maybe_norm(q, layer.q_norm), self._maybe_norm(k, layer.k_norm)
        q, k = rotate(q, *cos_sin), rotate(k, *cos_sin)
        cache.write(plan.slots, k, v)
        shape = AttentionShape(
            config.num_kv_heads, config.attention_scale, layer.config.window, config.attention_softcap
        )
        return layer.output(self.attention(q, cache, plan, shape).flatten(1))

    def _logits(self, x: Tensor) -> Tensor:
        logits = self.head(self._norm(x, self.norm)).float()
        cap = self.config.logit_softcap
        return logits if cap is None else torch.tanh(logits / cap) * cap

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Over the last dimension, in float32; the weight holds the family's offset already."""
        return functional.rms_norm(x.float(), weight.shape, weight, self.config.rms_norm_eps).to(x.dtype)

    def _maybe_norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        return x if weight is None else self._norm(x, weight)
