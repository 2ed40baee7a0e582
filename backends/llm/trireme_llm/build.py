"""Puts a Decoder together from a configuration and a checkpoint's tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from trireme_llm.attention import Attention
from trireme_llm.decoder import Decoder, Experts, FeedForward, Layer
from trireme_llm.decoder_config import DecoderConfig, ExpertsConfig, TensorNames
from trireme_llm.linear import DenseLinear, Linear
from trireme_llm.weights import Weights, WeightSource

MakeLinear = Callable[[Tensor, "Tensor | None"], Linear]


def build_decoder(
    config: DecoderConfig,
    source: WeightSource,
    attention: Attention,
    dtype: torch.dtype,
    make_linear: MakeLinear = DenseLinear,
) -> Decoder:
    """Every tensor of the checkpoint gets its place. Raises UnsupportedCheckpoint, naming what is missing or left."""
    weights = Weights(source, dtype)
    builder = _Builder(config, weights, make_linear)
    embedding = weights.take("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
    decoder = Decoder(
        config=config,
        embedding=embedding,
        layers=tuple(builder.layer(index) for index in range(len(config.layers))),
        norm=builder.norm("model.norm", config.hidden_size),
        head=builder.head(embedding),
        attention=attention,
    )
    weights.refuse_left()
    return decoder


@dataclass(frozen=True)
class _Builder:
    config: DecoderConfig
    weights: Weights
    make_linear: MakeLinear

    def head(self, embedding: Tensor) -> Linear:
        if self.config.tied_head:
            self.weights.skip("lm_head.weight")
            return self.make_linear(embedding, None)
        return self._linear("lm_head", self.config.hidden_size, self.config.vocab_size)

    def norm(self, name: str, size: int) -> Tensor:
        return self.weights.take(f"{name}.weight", size, dtype=torch.float32) + self.config.norm_offset

    def layer(self, index: int) -> Layer:
        prefix, config = f"model.layers.{index}", self.config
        hidden = config.hidden_size
        q, k, v = self._qkv(f"{prefix}.self_attn")
        sandwich = config.sandwich_norms
        attended, before = "post_attention_layernorm", "pre_feedforward_layernorm"
        experts = config.layers[index].experts
        return Layer(
            config=config.layers[index],
            input_norm=self.norm(f"{prefix}.input_layernorm", hidden),
            q=q,
            k=k,
            v=v,
            q_norm=self._head_norm(f"{prefix}.self_attn.q_norm"),
            k_norm=self._head_norm(f"{prefix}.self_attn.k_norm"),
            output=self._linear(
                f"{prefix}.self_attn.o_proj", config.num_heads * config.head_dim, hidden, config.output_bias
            ),
            after_attention_norm=self.norm(f"{prefix}.{attended}", hidden) if sandwich else None,
            feed_forward_norm=self.norm(f"{prefix}.{before if sandwich else attended}", hidden),
            feed_forward=self._mlp(f"{prefix}.mlp") if experts is None else self._experts(prefix, experts),
            after_feed_forward_norm=self.norm(f"{prefix}.post_feedforward_layernorm", hidden) if sandwich else None,
        )

    def _head_norm(self, name: str) -> Tensor | None:
        return self.norm(name, self.config.head_dim) if self.config.qk_norm else None

    def _linear(self, name: str, size_in: int, size_out: int, bias: bool = False) -> Linear:
        weight = self.weights.take(f"{name}.weight", size_out, size_in)
        return self.make_linear(weight, self.weights.take(f"{name}.bias", size_out) if bias else None)

    def _split(self, name: str, size_in: int, sizes: tuple[int, ...]) -> list[Linear]:
        """One tensor of the checkpoint as several layers: views, not copies."""
        weight = self.weights.take(f"{name}.weight", sum(sizes), size_in)
        return [self.make_linear(part, None) for part in torch.split(weight, list(sizes))]

    def _qkv(self, prefix: str) -> list[Linear]:
        config = self.config
        kv_size = config.num_kv_heads * config.head_dim
        sizes = (config.num_heads * config.head_dim, kv_size, kv_size)
        if config.tensor_names is TensorNames.FUSED:
            return self._split(f"{prefix}.qkv_proj", config.hidden_size, sizes)
        return [
            self._linear(f"{prefix}.{letter}_proj", config.hidden_size, size, config.qkv_bias)
            for letter, size in zip("qkv", sizes, strict=True)
        ]

    def _mlp(self, prefix: str) -> FeedForward:
        config = self.config
        hidden, size, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        if config.tensor_names is TensorNames.FUSED:
            gate, up = self._split(f"{prefix}.gate_up_proj", hidden, (size, size))
            return FeedForward(gate, up, self._linear(f"{prefix}.down_proj", size, hidden))
        return FeedForward(
            self._linear(f"{prefix}.gate_proj", hidden, size, bias),
            self._linear(f"{prefix}.up_proj", hidden, size, bias),
            self._linear(f"{prefix}.down_proj", size, hidden, bias),
        )

    def _experts(self, prefix: str, experts: ExpertsConfig) -> Experts:
        mixtral = self.config.tensor_names is TensorNames.MIXTRAL
        place = f"{prefix}.{'block_sparse_moe' if mixtral else 'mlp'}"
        gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
        hidden, size = self.config.hidden_size, experts.intermediate_size
        return Experts(
            experts,
            self._linear(f"{place}.gate", hidden, experts.count),
            tuple(
                FeedForward(
                    self._linear(f"{place}.experts.{index}.{gate}", hidden, size),
                    self._linear(f"{place}.experts.{index}.{up}", hidden, size),
                    self._linear(f"{place}.experts.{index}.{down}", size, hidden),
                )
                for index in range(experts.count)
            ),
        )
