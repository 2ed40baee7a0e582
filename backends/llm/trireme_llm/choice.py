"""One choice of a request as the engine follows it: its sequence, what ends it, and when things happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trireme_llm.request import FinishReason, SamplingParams
from trireme_llm.sequence import Sequence
from trireme_llm.stops import Released, StopFinder, Token

Bits = npt.NDArray[np.uint8]


class Structure(Protocol):
    """A grammar's state along one output."""

    def allowed_bits(self) -> Bits:
        """Which tokens may come next, one bit each, the lowest first. May run beside the engine's thread."""

    def accept(self, token_id: int) -> None:
        """Advance. Raises ValueError if the grammar does not allow the token."""

    @property
    def closed(self) -> bool:
        """Whether the output may end here."""

    @property
    def finished(self) -> bool:
        """Whether nothing can follow."""


@dataclass(eq=False, kw_only=True)
class Choice:
    """State that lives from a request's arrival to its last output."""

    sequence: Sequence
    seed: int
    end_ids: frozenset[int]  # end-of-sequence and stop tokens
    stops: StopFinder
    structure: Structure | None = None
    arrival_s: float = 0.0
    last_token_s: float | None = None  # None: no token yet
    seen_running: bool = field(default=False)

    @property
    def sampling(self) -> SamplingParams:
        return self.sequence.request.sampling

    @property
    def banned_ends(self) -> frozenset[int]:
        """What the next token must not be, so that min_tokens is reached."""
        return self.end_ids if self.sequence.num_output_tokens < self.sampling.min_tokens else frozenset()

    def push(self, token: Token) -> tuple[Released, FinishReason | None]:
        """Append a sampled token: what the caller may see of it, and whether the output ends with it."""
        self.sequence.tokens.append(token.id)
        if token.id in self.end_ids:
            return Released(self.stops.flush()), FinishReason.STOP
        if self.structure is not None:
            self.structure.accept(token.id)
        released = self._through_stops(token)
        if released.found:
            return released, FinishReason.STOP
        if self.structure is not None and self.structure.finished:
            return Released(released.tokens + self.stops.flush()), FinishReason.STOP
        if len(self.sequence.tokens) < self.sequence.max_length:
            return released, None
        released = Released(released.tokens + self.stops.flush())
        complete = self.structure is None or self.structure.closed
        return released, FinishReason.LENGTH if complete else FinishReason.INCOMPLETE

    def _through_stops(self, token: Token) -> Released:
        if self.sequence.num_output_tokens <= self.sampling.min_tokens:
            return Released((token,))
        return self.stops.push(token)
