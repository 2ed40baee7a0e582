"""Ends an output at a stop sequence of bytes, and holds tokens back only while they may be the start of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trireme_llm.request import TokenLogprobs


@dataclass(frozen=True)
class Token:
    """A sampled token on its way to the caller."""

    id: int
    logprobs: TokenLogprobs | None = None


@dataclass(frozen=True)
class Released:
    """Tokens the caller may see. `found`: a stop sequence begins `trim_bytes` before the end of the last of them."""

    tokens: tuple[Token, ...] = ()
    found: bool = False
    trim_bytes: int = 0


class StopFinder:
    """Watches the bytes of one output."""

    def __init__(self, stops: Sequence[bytes], token_bytes: Sequence[bytes]) -> None:
        self._stops = stops
        self._token_bytes = token_bytes
        self._held: list[Token] = []
        self._text = b""  # of the held tokens

    def push(self, token: Token) -> Released:
        """Take the next token; give those that can no longer be part of a stop sequence."""
        if not self._stops:
            return Released((token,))
        self._held.append(token)
        self._text += self._token_bytes[token.id]
        starts = [start for stop in self._stops if (start := self._text.find(stop)) >= 0]
        if starts:
            return self._stop_at(min(starts))
        return Released(self._release(len(self._text) - self._num_ambiguous()))

    def flush(self) -> tuple[Token, ...]:
        """All that is still held: the output ended otherwise."""
        held, self._held, self._text = tuple(self._held), [], b""
        return held

    def _stop_at(self, start: int) -> Released:
        tokens, size = [], 0
        for token in self._held:
            if size >= start:
                break
            tokens.append(token)
            size += len(self._token_bytes[token.id])
        return Released(tuple(tokens), found=True, trim_bytes=size - start)

    def _num_ambiguous(self) -> int:
        """The longest end of the text that is the beginning of a stop sequence."""
        longest = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(self._text)), longest, -1):
                if self._text.endswith(stop[:size]):
                    longest = size
                    break
        return longest

    def _release(self, num_bytes: int) -> tuple[Token, ...]:
        """The held tokens that end within the first `num_bytes`."""
        count = size = 0
        for token in self._held:
            token_size = len(self._token_bytes[token.id])
            if size + token_size > num_bytes:
                break
            size += token_size
            count += 1
        released, self._held, self._text = tuple(self._held[:count]), self._held[count:], self._text[size:]
        return released
