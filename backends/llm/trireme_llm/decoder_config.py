"""What a decoder is made of. Families differ in these values only. No tensors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class RopeKind(Enum):
    DEFAULT = "default"
    LINEAR = "linear"
    DYNAMIC = "dynamic"
    LLAMA3 = "llama3"
    YARN = "yarn"
    LONGROPE = "longrope"


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """How positions are turned into rotations; every kind reads the fields it knows."""

    kind: RopeKind
    theta: float
    dim: int  # rotated dimensions of a head
    original_length: int  # of the context it was trained with
    factor: float = 1.0
    attention_factor: float = 1.0  # of cosine and sine
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    short_factor: tuple[float, ...] = ()
    long_factor: tuple[float, ...] = ()

    @property
    def depends_on_length(self) -> bool:
        """Whether a long prompt's keys differ from those of a short prompt with the same beginning."""
        return self.kind is RopeKind.DYNAMIC or self.short_factor != self.long_factor


@dataclass(frozen=True, kw_only=True)
class ExpertsConfig:
    """A mixture of experts in place of the feed-forward block."""

    count: int
    per_token: int
    intermediate_size: int
    renormalize: bool  # the weights of the chosen experts sum to one


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """One block."""

    rope: RopeConfig
    window: int | None = None  # how many tokens a token sees, itself included; None: all
    experts: ExpertsConfig | None = None


class Activation(Enum):
    SILU = "silu"
    GELU = "gelu"
    GELU_TANH = "gelu_pytorch_tanh"


class TensorNames(Enum):
    """How a checkpoint names and splits the tensors of a layer."""

    PLAIN = "plain"
    FUSED = "fused"  # Phi-3: one tensor for q, k and v, one for gate and up
    MIXTRAL = "mixtral"  # experts called w1, w2 and w3


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """One decoder-only transformer."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_length: int
    layers: tuple[LayerConfig, ...]
    activation: Activation
    rms_norm_eps: float
    tied_head: bool
    tensor_names: TensorNames = TensorNames.PLAIN
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    sandwich_norms: bool = False  # a second norm after attention and after the feed-forward block
    norm_offset: float = 0.0  # added to norm weights
    embedding_scale: float = 1.0
    attention_scale: float = 1.0
    attention_softcap: float | None = None
    logit_softcap: float | None = None

    @property
    def kv_values_per_token(self) -> int:
        """Numbers in the cache for one token, keys and values of all layers."""
        return 2 * len(self.layers) * self.num_kv_heads * self.head_dim
