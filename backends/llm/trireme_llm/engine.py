"""The loop `schedule -> forward -> sample -> commit`. Owned by one thread; knows neither Triton nor text."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from collections.abc import Sequence as Items
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from trireme_llm.choice import Choice, Structure
from trireme_llm.errors import EngineStopped, InvalidRequest
from trireme_llm.request import FinishReason, Grammar, Output, Request
from trireme_llm.scheduler import Scheduler
from trireme_llm.sequence import Chunk, Sequence
from trireme_llm.stops import Released, StopFinder, Token
from trireme_llm.telemetry import EngineState, NoTelemetry, Telemetry

MAX_FAILED_STEPS = 3  # in a row; then the engine calls itself unhealthy

Logits = TypeVar("Logits")
Made_co = TypeVar("Made_co", covariant=True)
Taken_contra = TypeVar("Taken_contra", contravariant=True)


class Runner(Protocol[Made_co]):
    """The model over its cache."""

    def forward(self, chunks: list[Chunk]) -> Made_co:
        """Compute the chunks; a row of logits for each that reaches its last token, in order."""

    def root_hash(self, request: Request) -> bytes:
        """Names all that the keys and values of a prompt depend on beside its tokens."""


class Sampler(Protocol[Taken_contra]):
    """Chooses tokens."""

    def prepare(self, choices: list[Choice]) -> None:
        """Start whatever can be computed while the model runs."""

    def sample(self, logits: Taken_contra, choices: list[Choice]) -> list[Token | Exception]:
        """A token for each choice, or what went wrong with that one."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What the engine knows of tokens."""

    size: int
    end_ids: frozenset[int] = frozenset()  # end of sequence, by config and generation config
    token_bytes: Items[bytes] = ()  # by id; empty: stop sequences are refused
    compile_grammar: Callable[[Grammar], Structure] | None = None  # None: grammars are refused


class Engine(Generic[Logits]):
    """Runs requests together. `add`, then `step` while `busy`."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: Runner[Logits],
        sampler: Sampler[Logits],
        vocabulary: Vocabulary,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.runner = runner
        self.sampler = sampler
        self.vocabulary = vocabulary
        self.healthy = True
        self._telemetry = telemetry or NoTelemetry()
        self._choices: dict[Sequence, Choice] = {}
        self._failed_steps = 0

    @property
    def busy(self) -> bool:
        return self.scheduler.busy

    def add(self, request: Request) -> None:
        """Take a request. What is wrong with it is answered through its sink, once for each choice."""
        try:
            self._add(request)
        except Exception as error:  # one request's trouble is that request's answer
            for choice in range(request.sampling.n):
                self._emit_final(request, Output(choice=choice, finish_reason=FinishReason.ERROR, error=error))
            self._telemetry.finished(FinishReason.ERROR, 0.0, len(request.prompt), 0)

    def step(self) -> None:
        """One round: every running choice advances, or is answered."""
        self._end_unwanted()
        chunks = self.scheduler.schedule()
        if chunks:
            self._run(chunks)
        self._telemetry.stepped(self.state())

    def fail_all(self, error: Exception) -> None:
        """Answer everyone with an error: the engine ends."""
        for choice in list(self._choices.values()):
            self._finish(choice, FinishReason.ERROR, error=error)

    def state(self) -> EngineState:
        pool, stats = self.scheduler.pool, self.scheduler.stats
        return EngineState(
            running=len(self.scheduler.running),
            waiting=len(self.scheduler.waiting),
            blocks_held=pool.num_blocks - pool.num_free,
            blocks_free=pool.num_free,
            preemptions=stats.preemptions,
            prefix_query_tokens=stats.prefix_query_tokens,
            prefix_hit_tokens=stats.prefix_hit_tokens,
        )

    def _run(self, chunks: list[Chunk]) -> None:
        sampling = [self._choices[chunk.sequence] for chunk in chunks if chunk.samples]
        try:
            self.sampler.prepare(sampling)
            logits = self.runner.forward(chunks)
            tokens = self.sampler.sample(logits, sampling)
        except Exception as error:  # answered to everyone in the step
            self._fail_step(chunks, error)
            return
        self._failed_steps = 0
        self._commit(chunks, sampling, tokens)

    def _add(self, request: Request) -> None:
        if not self.healthy:
            raise EngineStopped("the engine is unhealthy after repeated failures; reload the model")
        self._check_tokens(request)
        sampling = request.sampling
        structures = [self._structure(sampling.grammar) for _ in range(sampling.n)]
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        end_ids = frozenset(sampling.stop_token_ids) | (frozenset() if sampling.ignore_eos else self.vocabulary.end_ids)
        for sequence in self.scheduler.add(request, self.runner.root_hash(request)):
            self._choices[sequence] = Choice(
                sequence=sequence,
                seed=seed,
                end_ids=end_ids,
                stops=StopFinder(sampling.stop_sequences, self.vocabulary.token_bytes),
                structure=structures[sequence.choice],
                arrival_s=time.monotonic(),
            )

    def _check_tokens(self, request: Request) -> None:
        size, sampling = self.vocabulary.size, request.sampling
        for token_id in (*request.prompt, *sampling.token_ids):
            if not 0 <= token_id < size:
                raise InvalidRequest(f"token id {token_id} is not in the vocabulary; allowed: from 0 to {size - 1}")
        if sampling.stop_sequences and not self.vocabulary.token_bytes:
            raise InvalidRequest("stop_sequences need the tokenizer, which this model was loaded without")
        if request.adapter:
            raise InvalidRequest(f"adapter {request.adapter!r} is not loaded; allowed: none")

    def _structure(self, grammar: Grammar | None) -> Structure | None:
        if grammar is None:
            return None
        if self.vocabulary.compile_grammar is None:
            raise InvalidRequest("structured output needs the tokenizer, which this model was loaded without")
        return self.vocabulary.compile_grammar(grammar)

    def _end_unwanted(self) -> None:
        now = time.monotonic()
        for choice in list(self._choices.values()):
            try:
                reason = _unwanted(choice.sequence.request, now)
            except Exception as error:  # one request's trouble is that request's answer
                self._finish(choice, FinishReason.ERROR, error=error)
            else:
                if reason is not None:
                    self._finish(choice, reason)

    def _commit(self, chunks: list[Chunk], sampling: list[Choice], tokens: list[Token | Exception]) -> None:
        self.scheduler.computed(chunks)
        now = time.monotonic()
        for chunk in chunks:
            self._note_start(self._choices[chunk.sequence], now)
        for choice, token in zip(sampling, tokens, strict=True):
            try:
                self._commit_token(choice, token, now)
            except Exception as error:  # one request's trouble is that request's answer
                self._finish(choice, FinishReason.ERROR, error=error)

    def _note_start(self, choice: Choice, now: float) -> None:
        if not choice.seen_running:
            choice.seen_running = True
            self._telemetry.started(now - choice.arrival_s)

    def _commit_token(self, choice: Choice, token: Token | Exception, now: float) -> None:
        if isinstance(token, Exception):
            raise token
        if choice.last_token_s is None:
            self._telemetry.first_token(now - choice.arrival_s)
        else:
            self._telemetry.next_token(now - choice.last_token_s)
        choice.last_token_s = now
        released, reason = choice.push(token)
        if reason is not None:
            ended_by = token.id if token.id in choice.end_ids else None
            self._finish(choice, reason, released, stop_token_id=ended_by)
        elif released.tokens:
            choice.sequence.request.sink.emit(_output(choice, released))

    def _finish(
        self,
        choice: Choice,
        reason: FinishReason,
        released: Released | None = None,
        *,
        stop_token_id: int | None = None,
        error: Exception | None = None,
    ) -> None:
        """The one place where a choice ends: its blocks are free before its last output leaves."""
        sequence = choice.sequence
        del self._choices[sequence]
        self.scheduler.remove(sequence)
        released = released or Released(choice.stops.flush())
        output = _output(choice, released, reason, stop_token_id, error)
        e2e_s = time.monotonic() - choice.arrival_s
        self._telemetry.finished(reason, e2e_s, sequence.num_prompt_tokens, sequence.num_output_tokens)
        self._emit_final(sequence.request, output)

    def _emit_final(self, request: Request, output: Output) -> None:
        with suppress(Exception):  # a sink that refuses its last output has nobody behind it
            request.sink.emit(output)

    def _fail_step(self, chunks: list[Chunk], error: Exception) -> None:
        self._failed_steps += 1
        for chunk in chunks:
            self._finish(self._choices[chunk.sequence], FinishReason.ERROR, error=error)
        if self._failed_steps >= MAX_FAILED_STEPS:
            self.healthy = False
            self.fail_all(EngineStopped(f"the engine is unhealthy: {self._failed_steps} steps failed, last: {error}"))


def _unwanted(request: Request, now: float) -> FinishReason | None:
    if request.sink.cancelled:
        return FinishReason.CANCELLED
    if request.deadline is not None and now >= request.deadline:
        return FinishReason.DEADLINE
    return None


def _output(
    choice: Choice,
    released: Released,
    reason: FinishReason | None = None,
    stop_token_id: int | None = None,
    error: Exception | None = None,
) -> Output:
    tokens, sequence = released.tokens, choice.sequence
    return Output(
        choice=sequence.choice,
        token_ids=tuple(token.id for token in tokens),
        logprobs=tuple(token.logprobs for token in tokens if token.logprobs is not None),
        trim_bytes=released.trim_bytes,
        finish_reason=reason,
        stop_token_id=stop_token_id,
        num_output_tokens=sequence.num_output_tokens,
        num_cached_tokens=sequence.num_cached,
        error=error,
    )
