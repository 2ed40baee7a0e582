"""What the engine reports about itself; whoever runs it decides where that goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from trireme_llm.request import FinishReason


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """Counts and levels after a step."""

    running: int = 0
    waiting: int = 0
    blocks_held: int = 0
    blocks_free: int = 0  # their content may still be found and shared
    preemptions: int = 0  # this and the following since the start
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0


class Telemetry(Protocol):
    """Called by the engine's thread; times in seconds."""

    def started(self, queue_s: float) -> None: ...

    def first_token(self, since_arrival_s: float) -> None: ...

    def next_token(self, since_last_s: float) -> None: ...

    def finished(self, reason: FinishReason, e2e_s: float, prompt_tokens: int, output_tokens: int) -> None: ...

    def stepped(self, state: EngineState) -> None: ...


class NoTelemetry:
    """Reports to nobody."""

    def started(self, queue_s: float) -> None:
        pass

    def first_token(self, since_arrival_s: float) -> None:
        pass

    def next_token(self, since_last_s: float) -> None:
        pass

    def finished(self, reason: FinishReason, e2e_s: float, prompt_tokens: int, output_tokens: int) -> None:
        pass

    def stepped(self, state: EngineState) -> None:
        pass
