"""Reads how a checkpoint rotates positions, in the two spellings that config.json has had."""

from __future__ import annotations

import math

from trireme_llm.config_reader import ConfigReader
from trireme_llm.decoder_config import RopeConfig, RopeKind
from trireme_llm.errors import UnsupportedCheckpoint

DEFAULT_THETA = 10_000.0
DEFAULT_LOCAL_THETA = 10_000.0
ALIASES = {"su": "longrope"}  # Phi-3's first files


def read_ropes(reader: ConfigReader, head_dim: int) -> tuple[RopeConfig, RopeConfig]:
    """For layers that see everything, and for layers with a sliding window."""
    place = _Place(reader, head_dim)
    if not reader.has("rope_parameters"):
        return _older(reader, place)
    section = reader.section("rope_parameters")
    if not section.has("full_attention") and not section.has("sliding_attention"):
        rope = place.read(section, place.theta(section))
        return rope, rope
    ropes = []
    for name in ("full_attention", "sliding_attention"):
        layer_type = section.section(name)
        ropes.append(place.read(layer_type, place.theta(layer_type)))
    section.refuse_unread(frozenset())
    return ropes[0], ropes[1]


def _older(reader: ConfigReader, place: _Place) -> tuple[RopeConfig, RopeConfig]:
    theta = reader.optional("rope_theta", float, DEFAULT_THETA)
    local_theta = reader.maybe("rope_local_base_freq", float)
    empty = ConfigReader({}, "config.json")
    section = reader.section("rope_scaling") if reader.has("rope_scaling") else empty
    reader.maybe("rope_scaling", dict)
    rope = place.read(section, theta)
    return rope, rope if local_theta is None else place.read(empty, local_theta)


class _Place:
    """What the rest of config.json says about positions."""

    def __init__(self, reader: ConfigReader, head_dim: int) -> None:
        self._head_dim = head_dim
        self._max_length = reader.required("max_position_embeddings", int)
        self._original = reader.maybe("original_max_position_embeddings", int)  # Phi-3 keeps it outside
        self._partial = reader.optional("partial_rotary_factor", float, 1.0)
        self._theta = reader.optional("rope_theta", float, DEFAULT_THETA)

    def theta(self, section: ConfigReader) -> float:
        return section.optional("rope_theta", float, self._theta)

    def read(self, section: ConfigReader, theta: float) -> RopeConfig:
        section.optional("rope_theta", float, theta)
        kind = self._kind(section)
        dim = int(self._head_dim * section.optional("partial_rotary_factor", float, self._partial))
        rope = self._rope(kind, section, theta, dim)
        section.refuse_unread(frozenset())
        return rope

    def _rope(self, kind: RopeKind, section: ConfigReader, theta: float, dim: int) -> RopeConfig:
        match kind:
            case RopeKind.DEFAULT:
                return RopeConfig(kind=kind, theta=theta, dim=dim, original_length=self._max_length)
            case RopeKind.LINEAR | RopeKind.DYNAMIC:
                return self._scaled(kind, section, theta, dim)
            case RopeKind.LLAMA3:
                return self._llama3(section, theta, dim)
            case RopeKind.YARN:
                return self._yarn(section, theta, dim)
            case RopeKind.LONGROPE:
                return self._longrope(section, theta, dim)

    def _kind(self, section: ConfigReader) -> RopeKind:
        older = section.optional("type", str, "default")
        name = section.optional("rope_type", str, older)
        name = ALIASES.get(name, name)
        known = [kind.value for kind in RopeKind]
        if name not in known:
            raise UnsupportedCheckpoint(f"RoPE type {name!r} is not understood; known: {', '.join(known)}")
        return RopeKind(name)

    def _original_length(self, section: ConfigReader) -> int:
        inside = section.optional("original_max_position_embeddings", int, self._max_length)
        return self._original or inside

    def _scaled(self, kind: RopeKind, section: ConfigReader, theta: float, dim: int) -> RopeConfig:
        section.maybe("original_max_position_embeddings", int)  # which these two kinds do not use
        factor = section.required("factor", float)
        return RopeConfig(kind=kind, theta=theta, dim=dim, original_length=self._max_length, factor=factor)

    def _llama3(self, section: ConfigReader, theta: float, dim: int) -> RopeConfig:
        return RopeConfig(
            kind=RopeKind.LLAMA3,
            theta=theta,
            dim=dim,
            original_length=self._original_length(section),
            factor=section.required("factor", float),
            low_freq_factor=section.required("low_freq_factor", float),
            high_freq_factor=section.required("high_freq_factor", float),
        )

    def _yarn(self, section: ConfigReader, theta: float, dim: int) -> RopeConfig:
        original = self._original_length(section)
        factor = section.optional("factor", float, self._max_length / original)
        return RopeConfig(
            kind=RopeKind.YARN,
            theta=theta,
            dim=dim,
            original_length=original,
            factor=factor,
            attention_factor=_yarn_attention_factor(section, factor),
            beta_fast=section.optional("beta_fast", float, 32.0),
            beta_slow=section.optional("beta_slow", float, 1.0),
            truncate=section.optional("truncate", bool, True),
        )

    def _longrope(self, section: ConfigReader, theta: float, dim: int) -> RopeConfig:
        original = self._original_length(section)
        factor = section.optional("factor", float, self._max_length / original)
        implied = 1.0 if factor <= 1.0 else math.sqrt(1 + math.log(factor) / math.log(original))
        return RopeConfig(
            kind=RopeKind.LONGROPE,
            theta=theta,
            dim=dim,
            original_length=original,
            factor=factor,
            attention_factor=section.optional("attention_factor", float, implied),
            short_factor=_factors(section, "short_factor", dim),
            long_factor=_factors(section, "long_factor", dim),
        )


def _yarn_attention_factor(section: ConfigReader, factor: float) -> float:
    """Peng et al., YaRN (2023), section 3.4; mscale and mscale_all_dim as DeepSeek added them."""

    def scale(mscale: float) -> float:
        return 1.0 if factor <= 1.0 else 0.1 * mscale * math.log(factor) + 1.0

    mscale = section.optional("mscale", float, 0.0)
    all_dim = section.optional("mscale_all_dim", float, 0.0)
    implied = scale(mscale) / scale(all_dim) if mscale and all_dim else scale(1.0)
    return section.optional("attention_factor", float, implied)


def _factors(section: ConfigReader, key: str, dim: int) -> tuple[float, ...]:
    factors = tuple(float(factor) for factor in section.required(key, list))
    if len(factors) != dim // 2:
        raise UnsupportedCheckpoint(f"RoPE: {key!r} has {len(factors)} numbers; {dim // 2} are needed")
    return factors
