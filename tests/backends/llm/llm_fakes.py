"""A model without weights that still needs its cache: it reads every earlier token back through the block table."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from trireme_llm.choice import Choice
from trireme_llm.engine import Engine, Vocabulary
from trireme_llm.request import Output, Request, SamplingParams
from trireme_llm.scheduler import Scheduler, SchedulerConfig
from trireme_llm.sequence import Chunk
from trireme_llm.stops import Token

VOCABULARY_SIZE = 256


def next_token(prefix: list[int]) -> int:
    """What the fake model says after these tokens."""
    return hashlib.blake2b(bytes(prefix), digest_size=1).digest()[0]


def expected_output(prompt: tuple[int, ...], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]


class FakeRunner:
    """Its cache holds the token itself in each slot, so a lost or wrongly shared block changes the answer."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.block_size = config.block_size
        self.slots = [-1] * (config.num_blocks * config.block_size)
        self.num_steps = 0
        self.num_tokens = 0
        self.fail_steps: set[int] = set()

    def root_hash(self, request: Request) -> bytes:
        return b"fake"

    def forward(self, chunks: list[Chunk]) -> list[int]:
        self.num_steps += 1
        self.num_tokens += sum(chunk.count for chunk in chunks)
        if self.num_steps in self.fail_steps:
            raise RuntimeError("the fake model broke")
        for chunk in chunks:
            for position in range(chunk.start, chunk.end):
                self.slots[self._slot(chunk, position)] = chunk.sequence.tokens[position]
        return [next_token([self.slots[self._slot(c, p)] for p in range(c.end)]) for c in chunks if c.samples]

    def _slot(self, chunk: Chunk, position: int) -> int:
        return chunk.sequence.blocks[position // self.block_size] * self.block_size + position % self.block_size


class FakeSampler:
    def prepare(self, choices: list[Choice]) -> None:
        pass

    def sample(self, logits: list[int], choices: list[Choice]) -> list[Token | Exception]:
        return [Token(token) for token in logits]


@dataclass
class Recorder:
    """A sink that keeps everything."""

    outputs: list[Output] = field(default_factory=list)
    cancelled: bool = False
    fail_at: int | None = None  # raise at this output

    def emit(self, output: Output) -> None:
        self.outputs.append(output)
        if len(self.outputs) == self.fail_at:
            raise RuntimeError("the caller's side broke")

    def tokens(self, choice: int = 0) -> list[int]:
        return [token for output in self.outputs if output.choice == choice for token in output.token_ids]

    @property
    def finals(self) -> list[Output]:
        return [output for output in self.outputs if output.finish_reason is not None]

    @property
    def final(self) -> Output:
        (final,) = self.finals
        return final


def fake_engine(vocabulary: Vocabulary | None = None, **limits: int) -> Engine[list[int]]:
    config = SchedulerConfig(**{"num_blocks": 100, "max_length": 10_000, **limits})
    vocabulary = vocabulary or Vocabulary(size=VOCABULARY_SIZE, token_bytes=[bytes([i]) for i in range(256)])
    return Engine(Scheduler(config), FakeRunner(config), FakeSampler(), vocabulary)


def request(prompt: tuple[int, ...] | int, max_tokens: int | None = 8, **fields) -> Request:
    """A number as prompt: that many tokens, the same for the same number."""
    if isinstance(prompt, int):
        prompt = tuple((prompt * 31 + i * 7) % VOCABULARY_SIZE for i in range(prompt))
    places = {k: fields.pop(k) for k in ("priority", "deadline", "adapter") if k in fields}
    sampling = SamplingParams(max_tokens=max_tokens, **fields)
    return Request(prompt=prompt, sink=Recorder(), sampling=sampling, **places)


def run(engine: Engine, max_steps: int = 100_000) -> int:
    """Step until idle; how many steps that took."""
    steps = 0
    while engine.busy:
        engine.step()
        steps += 1
        assert steps < max_steps, "the engine makes no progress"
    return steps
