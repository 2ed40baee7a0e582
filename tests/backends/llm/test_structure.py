"""Structured output with a small byte-level tokenizer, followed by a model that says random things."""

import json

import pytest
import torch
from llm_fakes import FakeRunner, fake_engine, request, run
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from trireme_llm.engine import Vocabulary
from trireme_llm.errors import InvalidRequest
from trireme_llm.request import FinishReason, Grammar, GrammarKind
from trireme_llm.sampler import TokenSampler
from trireme_llm.structure import grammar_compiler
from trireme_llm.token_bytes import ALPHABET, token_bytes

END = 256
SIZE = 258  # a byte each, the end, and one more
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "count": {"type": "integer", "minimum": 0, "maximum": 999},
        "kind": {"enum": ["oar", "sail"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["name", "count", "kind", "tags"],
    "additionalProperties": False,
}


def byte_tokenizer() -> Tokenizer:
    vocabulary = {letter: byte for letter, byte in ALPHABET.items()}  # noqa: C416
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>", "<more>"])
    return tokenizer


class RandomRunner(FakeRunner):
    """Logits that depend on the prefix and nothing else."""

    def forward(self, chunks):
        prefixes = super().forward(chunks)
        rows = [torch.randn(SIZE, generator=torch.Generator().manual_seed(prefix)) for prefix in prefixes]
        return torch.stack(rows) if rows else torch.empty(0, SIZE)


@pytest.fixture(scope="module")
def vocabulary():
    tokenizer = byte_tokenizer()
    return Vocabulary(
        size=SIZE,
        end_ids=frozenset({END}),
        token_bytes=token_bytes(tokenizer, SIZE),
        compile_grammar=grammar_compiler(tokenizer, SIZE, END),
    )


def ask(vocabulary, kind, source, max_tokens=200, **fields):
    engine = fake_engine(vocabulary)
    engine.runner = RandomRunner(engine.scheduler.config)
    engine.sampler = TokenSampler()
    fields = {"temperature": 1.0, **fields}
    asked = request((1, 2, 3), max_tokens, grammar=Grammar(kind, source), **fields)
    engine.add(asked)
    run(engine)
    return asked.sink


def text(sink) -> str:
    return bytes(sink.tokens()).decode()


@pytest.mark.parametrize("seed", range(8))
def test_a_json_schema_is_followed_whatever_the_model_says(vocabulary, seed):
    sink = ask(vocabulary, GrammarKind.JSON_SCHEMA, json.dumps(SCHEMA), seed=seed, max_tokens=400)
    assert sink.final.finish_reason is FinishReason.STOP
    value = json.loads(text(sink))
    assert set(value) == {"name", "count", "kind", "tags"}
    assert value["kind"] in ("oar", "sail")
    assert 0 <= value["count"] <= 999
    assert len(value["tags"]) <= 3


def test_a_regular_expression_is_matched_whole(vocabulary):
    sink = ask(vocabulary, GrammarKind.REGEX, "[a-f]{4}-[0-9]{2}")
    assert sink.final.finish_reason is FinishReason.STOP
    left, right = text(sink).split("-")
    assert len(left) == 4
    assert set(left) <= set("abcdef")
    assert len(right) == 2
    assert right.isdigit()


def test_one_of_the_choices_comes_out(vocabulary):
    options = ["yes", "no", 'say "ähm"', "line\nbreak"]
    found = {text(ask(vocabulary, GrammarKind.CHOICES, json.dumps(options), seed=seed)) for seed in range(30)}
    assert found <= set(options)
    assert len(found) > 1


def test_a_grammar_of_ones_own_is_followed(vocabulary):
    sink = ask(vocabulary, GrammarKind.LARK, 'start: "(" [start] ")"', max_tokens=60)
    depth = len(sink.tokens()) // 2
    assert text(sink) in ("(" * depth + ")" * depth, "(" * 60)


def test_an_output_cut_inside_its_structure_is_flagged(vocabulary):
    sink = ask(vocabulary, GrammarKind.JSON_SCHEMA, json.dumps(SCHEMA), max_tokens=5)
    assert sink.final.finish_reason is FinishReason.INCOMPLETE


def test_white_space_cannot_use_up_the_budget(vocabulary):
    sink = ask(vocabulary, GrammarKind.JSON_SCHEMA, json.dumps(SCHEMA), logit_bias={32: 50.0, 10: 50.0, 9: 50.0})
    assert "  " not in text(sink).replace(json.loads(text(sink))["name"], "")


@pytest.mark.parametrize(
    ("kind", "source", "named"),
    [
        (GrammarKind.JSON_SCHEMA, "{", "not JSON"),
        (GrammarKind.JSON_SCHEMA, "[]", "JSON object"),
        (GrammarKind.JSON_SCHEMA, '{"type": "banana"}', "banana"),
        (GrammarKind.REGEX, "(", "regex"),
        (GrammarKind.CHOICES, "[]", "at least one"),
        (GrammarKind.CHOICES, '"a"', "list"),
        (GrammarKind.LARK, "start: nothing", "nothing"),
    ],
)
def test_a_wrong_grammar_is_the_callers_error(vocabulary, kind, source, named):
    final = ask(vocabulary, kind, source).final
    assert isinstance(final.error, InvalidRequest)
    assert named in str(final.error)
