"""Which sequences run next, and on which blocks. No tensors and no Triton.

Two rules keep it free of deadlock and starvation. A request that could not finish alone in the whole pool is refused
when it arrives; and among running sequences the first in order may always take the blocks of the last, so the first
one always advances. Preempted sequences forget their blocks and are computed again, prompt and output alike.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from operator import attrgetter

from trireme_llm.block_pool import BlockPool
from trireme_llm.errors import InvalidRequest
from trireme_llm.request import Request
from trireme_llm.sequence import Chunk, Sequence

PRIORITY_HEAD_START = 256  # arrivals that one level of priority may overtake: the wait of the lowest stays bounded
MAX_PRIORITY = 100


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """Limits of one engine."""

    num_blocks: int
    max_length: int  # tokens of a sequence, prompt and output together
    block_size: int = 16  # tokens per block
    max_batch_tokens: int = 2048  # per step, decodes and prompt chunks together
    max_running: int = 64  # sequences

    def __post_init__(self) -> None:
        assert self.num_blocks * self.block_size > 0, "a pool has at least one token"
        assert self.max_batch_tokens >= self.max_running > 0, "every running sequence gets a token in every step"

    @property
    def longest(self) -> int:
        """The longest sequence that fits. The last token of all is never computed, so it needs no block."""
        return min(self.max_length, self.num_blocks * self.block_size + 1)


@dataclass
class SchedulerStats:
    """Counts since the start."""

    preemptions: int = 0
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0


class Scheduler:
    """Admits, grows and preempts sequences under one token budget per step."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.pool = BlockPool(config.num_blocks)
        self.waiting: list[Sequence] = []  # both in order
        self.running: list[Sequence] = []
        self.stats = SchedulerStats()
        self._arrivals = 0
        self._being_computed: set[bytes] = set()  # blocks that a running prompt will publish

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, request: Request, root_hash: bytes) -> list[Sequence]:
        """Queue a request, a sequence per choice. Raises InvalidRequest if it could never finish."""
        max_length = self._checked_length(request)
        self._arrivals += 1
        added = [self._sequence(request, choice, max_length, root_hash) for choice in range(request.sampling.n)]
        for sequence in added:
            insort(self.waiting, sequence, key=attrgetter("order"))
        return added

    def schedule(self) -> list[Chunk]:
        """The next step: decodes first, then prompts being computed, then new ones while budget and blocks last."""
        preempted = self.stats.preemptions
        chunks = self._decodes()
        budget = self.config.max_batch_tokens - len(chunks)
        budget = self._continue_prompts(chunks, budget)
        if self.stats.preemptions == preempted:
            self._admit(chunks, budget)
        assert chunks or not self.busy, "while there is work, every step computes something"
        return chunks

    def computed(self, chunks: list[Chunk]) -> None:
        """Record that a step's keys and values are in the cache, before its new tokens are appended."""
        for chunk in chunks:
            sequence = chunk.sequence
            first = sequence.num_computed // self.config.block_size
            sequence.num_computed = chunk.end
            sequence.extend_hashes(self.config.block_size)
            for index in range(first, chunk.end // self.config.block_size):
                self.pool.publish(sequence.blocks[index], sequence.hashes[index])
                self._being_computed.discard(sequence.hashes[index])

    def remove(self, sequence: Sequence) -> None:
        """End a sequence, wherever it is, and free its blocks."""
        if sequence in self.running:
            self._free(sequence)
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)

    def _checked_length(self, request: Request) -> int:
        config, num_prompt = self.config, len(request.prompt)
        if num_prompt == 0:
            raise InvalidRequest("the prompt has no tokens; at least 1 is needed")
        if num_prompt >= config.longest:
            raise InvalidRequest(f"the prompt has {num_prompt} tokens; at most {config.longest - 1} fit")
        wanted = request.sampling.max_tokens
        if wanted is not None and num_prompt + wanted > config.longest:
            raise InvalidRequest(
                f"the prompt has {num_prompt} tokens and max_tokens is {wanted}; together at most {config.longest} fit"
            )
        if not -MAX_PRIORITY <= request.priority <= MAX_PRIORITY:
            raise InvalidRequest(f"priority is {request.priority}; allowed: from -{MAX_PRIORITY} to {MAX_PRIORITY}")
        return config.longest if wanted is None else num_prompt + wanted

    def _sequence(self, request: Request, choice: int, max_length: int, root_hash: bytes) -> Sequence:
        sequence = Sequence(
            request=request,
            choice=choice,
            order=self._arrivals + request.priority * PRIORITY_HEAD_START,
            max_length=max_length,
            root_hash=root_hash,
            tokens=list(request.prompt),
            num_prompt_tokens=len(request.prompt),
        )
        sequence.extend_hashes(self.config.block_size)
        return sequence

    def _decodes(self) -> list[Chunk]:
        chunks = []
        for sequence in list(self.running):
            if sequence.num_to_compute == 1 and sequence.blocks and self._grow(sequence):
                chunks.append(Chunk(sequence, sequence.num_computed, 1))
        return chunks

    def _grow(self, sequence: Sequence) -> bool:
        """Make room for one more token; the last in order pays. False: that was this sequence itself."""
        if sequence.num_computed < len(sequence.blocks) * self.config.block_size:
            return True
        while self.pool.num_free == 0:
            victim = self.running[-1]
            self._preempt(victim)
            if victim is sequence:
                return False
        sequence.blocks += self.pool.take(1)
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.stats.preemptions += 1
        self._free(sequence)
        self.running.remove(sequence)
        insort(self.waiting, sequence, key=attrgetter("order"))

    def _free(self, sequence: Sequence) -> None:
        self._being_computed.difference_update(sequence.hashes[sequence.num_computed // self.config.block_size :])
        self.pool.release(sequence.blocks)
        sequence.blocks = []
        sequence.num_computed = 0

    def _continue_prompts(self, chunks: list[Chunk], budget: int) -> int:
        for sequence in self.running:
            if sequence.num_to_compute > 1 and budget > 0:
                budget = self._add_chunk(chunks, sequence, budget)
        return budget

    def _add_chunk(self, chunks: list[Chunk], sequence: Sequence, budget: int) -> int:
        count = min(sequence.num_to_compute, budget)
        chunks.append(Chunk(sequence, sequence.num_computed, count))
        return budget - count

    def _admit(self, chunks: list[Chunk], budget: int) -> None:
        for sequence in list(self.waiting):
            if budget == 0 or len(self.running) == self.config.max_running:
                return
            shareable = sequence.hashes[: (len(sequence.tokens) - 1) // self.config.block_size]
            found = self.pool.find(shareable)
            if shareable[len(found) : len(found) + 1] and shareable[len(found)] in self._being_computed:
                continue  # soon to be found in the cache: cheaper than computing it twice
            if not self._fits(sequence, found):
                return
            self._start(sequence, found)
            budget = self._add_chunk(chunks, sequence, budget)

    def _fits(self, sequence: Sequence, found: list[int]) -> bool:
        # Beside all of its tokens, one block for each that runs already: or the newcomer would soon be preempted.
        needed = self._num_blocks(sequence) - len(found) + self.pool.num_idle(found) + len(self.running)
        return needed <= self.pool.num_free

    def _num_blocks(self, sequence: Sequence) -> int:
        return -(-len(sequence.tokens) // self.config.block_size)

    def _start(self, sequence: Sequence, found: list[int]) -> None:
        """Give a sequence the blocks of all its tokens. At least the last token is computed: its logits are needed."""
        self.pool.hold(found)
        sequence.blocks = found + self.pool.take(self._num_blocks(sequence) - len(found))
        sequence.num_computed = len(found) * self.config.block_size
        self._being_computed.update(sequence.hashes[len(found) :])
        if sequence.num_output_tokens == 0:
            sequence.num_cached = sequence.num_computed
            self.stats.prefix_query_tokens += sequence.num_prompt_tokens
            self.stats.prefix_hit_tokens += sequence.num_cached
        self.waiting.remove(sequence)
        insort(self.running, sequence, key=attrgetter("order"))
