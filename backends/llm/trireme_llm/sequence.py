"""One choice of one request while it is being generated. No tensors."""

from __future__ import annotations

from dataclasses import dataclass, field

from trireme_llm.block_pool import chain_hash
from trireme_llm.request import Request


@dataclass(eq=False, kw_only=True)
class Sequence:
    """Tokens so far and the blocks that hold their keys and values."""

    request: Request
    choice: int
    order: int  # smaller is served first
    max_length: int  # prompt and output together
    root_hash: bytes  # names model and adapter
    tokens: list[int]
    num_prompt_tokens: int
    num_computed: int = 0  # tokens whose keys and values are in the cache
    num_cached: int = 0  # of the prompt: found in the cache when first admitted
    blocks: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)  # of the full blocks of `tokens`

    def extend_hashes(self, block_size: int) -> None:
        """Name the blocks that have become full."""
        while (len(self.hashes) + 1) * block_size <= len(self.tokens):
            start = len(self.hashes) * block_size
            parent = self.hashes[-1] if self.hashes else self.root_hash
            self.hashes.append(chain_hash(parent, self.tokens[start : start + block_size]))

    @property
    def num_output_tokens(self) -> int:
        return len(self.tokens) - self.num_prompt_tokens

    @property
    def num_to_compute(self) -> int:
        return len(self.tokens) - self.num_computed


@dataclass(frozen=True)
class Chunk:
    """Consecutive tokens of one sequence that one step computes."""

    sequence: Sequence
    start: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.count

    @property
    def samples(self) -> bool:
        """Whether the chunk reaches the last token, so that its logits choose the next one."""
        return self.end == len(self.sequence.tokens)
