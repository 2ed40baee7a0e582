"""Rotary position embeddings (Su et al., RoFormer, 2021) and their extensions to longer contexts.

Frequencies follow the Transformers library, so that checkpoints mean the same here: linear and dynamic NTK scaling,
Llama 3.1, YaRN (Peng et al., 2023) and LongRoPE (Ding et al., 2024).

Dynamic NTK and LongRoPE rotate a token by the length of the sequence it is computed with. Here that is the prompt's
length for tokens of the prompt, and the token's own position for generated ones: what a whole prefill followed by
single decodes gives, however the prompt is cut into chunks and however often it is computed again.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trireme_llm.decoder_config import RopeConfig, RopeKind


class Rope:
    """Cosines and sines of one configuration."""

    def __init__(self, config: RopeConfig, device: torch.device) -> None:
        self.config = config
        self._inverse = inverse_frequencies(config).to(device)
        self._long = long_inverse_frequencies(config).to(device) if config.kind is RopeKind.LONGROPE else None

    def cos_sin(self, positions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """For int64 (tokens,) positions and the lengths they are computed with: float32 (tokens, 1, dim / 2) each."""
        angles = positions[:, None].float() * self._frequencies(lengths)
        factor = self.config.attention_factor
        return (angles.cos() * factor).unsqueeze(1), (angles.sin() * factor).unsqueeze(1)

    def _frequencies(self, lengths: Tensor) -> Tensor:
        """(1 or tokens, dim / 2)"""
        config = self.config
        if self._long is not None:
            return torch.where(lengths[:, None] > config.original_length, self._long, self._inverse)
        if config.kind is RopeKind.DYNAMIC:
            stretched = lengths.clamp(min=config.original_length).float() / config.original_length
            theta = config.theta * (config.factor * stretched - (config.factor - 1)) ** (config.dim / (config.dim - 2))
            return 1.0 / theta[:, None] ** _exponents(config.dim).to(lengths.device)
        return self._inverse[None]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the first dimensions of every head, in halves. x: (tokens, heads, head_dim); the rest passes."""
    half = cos.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)


def inverse_frequencies(config: RopeConfig) -> Tensor:
    """float32 (dim / 2): the angle per position, for sequences no longer than the original context."""
    plain = 1.0 / config.theta ** _exponents(config.dim)
    match config.kind:
        case RopeKind.LINEAR:
            return plain / config.factor
        case RopeKind.LLAMA3:
            return _llama3(config, plain)
        case RopeKind.YARN:
            return _yarn(config, plain)
        case RopeKind.LONGROPE:
            return plain / torch.tensor(config.short_factor)
        case RopeKind.DEFAULT | RopeKind.DYNAMIC:
            return plain


def long_inverse_frequencies(config: RopeConfig) -> Tensor:
    return 1.0 / config.theta ** _exponents(config.dim) / torch.tensor(config.long_factor)


def _exponents(dim: int) -> Tensor:
    return torch.arange(0, dim, 2, dtype=torch.float32) / dim


def _llama3(config: RopeConfig, plain: Tensor) -> Tensor:
    """Long wavelengths are stretched, short ones kept, those between blended."""
    wavelengths = 2 * math.pi / plain
    low, high = config.low_freq_factor, config.high_freq_factor
    kept = ((config.original_length / wavelengths - low) / (high - low)).clamp(0.0, 1.0)
    return kept * plain + (1 - kept) * plain / config.factor


def _yarn(config: RopeConfig, plain: Tensor) -> Tensor:
    """Dimensions that turn often are kept, those that turn less than once are stretched, with a ramp between."""

    def dimension(rotations: float) -> float:
        turns = config.original_length / (rotations * 2 * math.pi)
        return config.dim * math.log(turns) / (2 * math.log(config.theta))

    low, high = dimension(config.beta_fast), dimension(config.beta_slow)
    if config.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.dim - 1)
    width = high - low or 0.001
    stretched = ((torch.arange(config.dim // 2, dtype=torch.float32) - low) / width).clamp(0.0, 1.0)
    return stretched * plain / config.factor + (1 - stretched) * plain
