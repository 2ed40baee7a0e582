"""What a caller asks of the engine and what comes back. No tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from trireme_llm.errors import InvalidRequest

MAX_LOGPROBS = 20
MAX_CHOICES = 64  # the largest n


class FinishReason(Enum):
    STOP = "stop"
    LENGTH = "length"
    INCOMPLETE = "incomplete"  # out of tokens inside a structure that is not closed
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    ERROR = "error"


class GrammarKind(Enum):
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    CHOICES = "choices"  # the source is a JSON list of strings
    LARK = "lark"


@dataclass(frozen=True)
class Grammar:
    """A structure that the output must have."""

    kind: GrammarKind
    source: str


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen and when to stop.

    Raises InvalidRequest, naming the field and what it allows.
    """

    max_tokens: int | None = None  # None: as many as fit
    min_tokens: int = 0
    temperature: float = 1.0  # 0: greedy
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    allowed_token_ids: tuple[int, ...] | None = None
    banned_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    n: int = 1
    stop_token_ids: tuple[int, ...] = ()
    stop_sequences: tuple[bytes, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None  # None: none; 0: of the chosen token only
    grammar: Grammar | None = None

    def __post_init__(self) -> None:
        _check("max_tokens", self.max_tokens is None or self.max_tokens >= 1, self.max_tokens, "at least 1")
        _check("min_tokens", self.min_tokens >= 0, self.min_tokens, "at least 0")
        limit = self.max_tokens
        _check("min_tokens", limit is None or self.min_tokens <= limit, self.min_tokens, f"at most max_tokens, {limit}")
        _check("temperature", 0.0 <= self.temperature <= 100.0, self.temperature, "from 0 to 100")
        _check("top_k", self.top_k is None or self.top_k >= 1, self.top_k, "at least 1")
        _check("top_p", 0.0 < self.top_p <= 1.0, self.top_p, "above 0, at most 1")
        _check("min_p", 0.0 <= self.min_p <= 1.0, self.min_p, "from 0 to 1")
        for name in ("presence_penalty", "frequency_penalty"):
            _check(name, -2.0 <= getattr(self, name) <= 2.0, getattr(self, name), "from -2 to 2")
        _check("repetition_penalty", 0.0 < self.repetition_penalty <= 10.0, self.repetition_penalty, "above 0 up to 10")
        _check("n", 1 <= self.n <= MAX_CHOICES, self.n, f"from 1 to {MAX_CHOICES}")
        _check("allowed_token_ids", self.allowed_token_ids != (), "an empty list", "at least one id")
        _check("stop_sequences", all(self.stop_sequences), "an empty sequence", "at least one byte each")
        _check("logprobs", 0 <= (self.logprobs or 0) <= MAX_LOGPROBS, self.logprobs, f"from 0 to {MAX_LOGPROBS}")
        _check("logit_bias", all(math.isfinite(b) for b in self.logit_bias.values()), "inf or nan", "finite numbers")

    @property
    def token_ids(self) -> set[int]:
        """Every token id the caller names."""
        return {*self.logit_bias, *(self.allowed_token_ids or ()), *self.banned_token_ids, *self.stop_token_ids}


def _check(name: str, holds: bool, value: object, allowed: str) -> None:
    if not holds:
        raise InvalidRequest(f"{name} is {value}; allowed: {allowed}")


@dataclass(frozen=True)
class TokenLogprobs:
    """Natural logarithms of probabilities before temperature, penalties and masks."""

    chosen: float
    top: tuple[tuple[int, float], ...] = ()  # (token id, logprob), most likely first


@dataclass(frozen=True, kw_only=True)
class Output:
    """New tokens of one choice; the last one of a choice has a finish reason."""

    choice: int = 0
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()  # one per token id, or none
    trim_bytes: int = 0  # how many bytes at the end of the last token belong to a stop sequence
    finish_reason: FinishReason | None = None  # None: more to come; the fields below come with it
    stop_token_id: int | None = None  # the token that ended the output; not among token_ids
    num_output_tokens: int = 0  # in all, with the one that ended it
    num_cached_tokens: int = 0  # of the prompt
    error: Exception | None = None  # InvalidRequest: the caller's fault


class Sink(Protocol):
    """Where a request's outputs go. Both members are used by the engine's thread only."""

    @property
    def cancelled(self) -> bool:
        """Whether the caller no longer wants an answer."""

    def emit(self, output: Output) -> None:
        """Take new tokens. An exception ends this request, not the engine."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """One prompt and what to do with it."""

    prompt: tuple[int, ...]
    sink: Sink
    sampling: SamplingParams = SamplingParams()
    priority: int = 0  # smaller goes first
    deadline: float | None = None  # seconds, as time.monotonic() counts
    adapter: str = ""  # part of the prefix hash; only "", the model itself, exists
