"""Structured output through llguidance: which tokens a grammar allows next, and whether the output may end.

llguidance rather than xgrammar: it covers more of JSON Schema, compiles lazily (no seconds before the first token),
and needs no further packages.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from tokenizers import Tokenizer

from trireme_llm.choice import Bits
from trireme_llm.errors import InvalidRequest
from trireme_llm.request import Grammar, GrammarKind

MAX_GRAMMAR_BYTES = 1 << 20


@dataclass(eq=False)
class GrammarState:
    """The state of one output."""

    matcher: LLMatcher

    def allowed_bits(self) -> Bits:
        """One bit for each token id, the lowest first. Releases the interpreter lock while it computes."""
        bits = self.matcher.compute_bitmask()
        self._check()
        return np.frombuffer(bits, dtype=np.uint8)

    def accept(self, token_id: int) -> None:
        self.matcher.consume_token(token_id)
        self._check()

    @property
    def closed(self) -> bool:
        return bool(self.matcher.is_accepting())

    @property
    def finished(self) -> bool:
        return bool(self.matcher.is_stopped())

    def _check(self) -> None:
        if self.matcher.is_error():
            raise InvalidRequest(f"the structured output cannot go on: {self.matcher.get_error()}")


def grammar_compiler(tokenizer: Tokenizer, vocabulary_size: int, end_id: int) -> Callable[[Grammar], GrammarState]:
    """For one tokenizer. The result raises InvalidRequest for a grammar that is wrong or not supported."""

    @cache
    def prepared() -> LLTokenizer:
        """Made for the first grammar: with a large vocabulary it takes seconds, and few servers need it."""
        return LLTokenizer(tokenizer.to_str(), n_vocab=vocabulary_size, eos_token=end_id)

    def compile_grammar(grammar: Grammar) -> GrammarState:
        matcher = LLMatcher(prepared(), _source(grammar), log_level=0)
        if matcher.is_error():
            raise InvalidRequest(f"{grammar.kind.value}: {matcher.get_error()}")
        return GrammarState(matcher)

    return compile_grammar


def _source(grammar: Grammar) -> str:
    if len(grammar.source) > MAX_GRAMMAR_BYTES:
        raise InvalidRequest(f"the grammar has {len(grammar.source)} characters; at most {MAX_GRAMMAR_BYTES}")
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return _json_schema(grammar.source)
        case GrammarKind.REGEX:
            return str(LLMatcher.grammar_from_regex(grammar.source))
        case GrammarKind.CHOICES:
            return str(LLMatcher.grammar_from_lark(f"start: {' | '.join(_choices(grammar.source))}"))
        case GrammarKind.LARK:
            return str(LLMatcher.grammar_from_lark(grammar.source))


def _json_schema(source: str) -> str:
    try:
        schema = json.loads(source)
    except ValueError as error:
        raise InvalidRequest(f"json_schema is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise InvalidRequest(f"json_schema is {source[:40]}; allowed: a JSON object")
    # Fixed separators: a model that likes white space could otherwise spend its whole budget on it.
    return str(LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False}))


def _choices(source: str) -> list[str]:
    try:
        choices = json.loads(source)
    except ValueError as error:
        raise InvalidRequest(f"choices is not JSON: {error}") from error
    strings = isinstance(choices, list) and all(isinstance(choice, str) and choice for choice in choices)
    if not strings or not choices:
        raise InvalidRequest("choices needs a JSON list of at least one string, none of them empty")
    return [json.dumps(choice, ensure_ascii=False) for choice in choices]
