"""Logits of every family against the Transformers library, float32, within 1e-4."""

import pytest
import torch
import transformers
from llm_checkpoints import FAMILIES, ROPES, make_checkpoint
from llm_fakes import Recorder
from trireme_llm.attention import ReferenceAttention
from trireme_llm.request import Request
from trireme_llm.scheduler import Scheduler, SchedulerConfig

TOLERANCE = 1e-4
torch.set_num_threads(1)


def tokens(count: int, seed: int = 0) -> list[int]:
    return torch.randint(3, 96, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def followed(runner, texts: list[list[int]], prompts: list[int], **limits: int) -> list[torch.Tensor]:
    """Serve the first tokens of each text as a prompt and force the rest: the logits after each from there on."""
    config = SchedulerConfig(num_blocks=64, max_length=1000, **{"max_batch_tokens": 512, "max_running": 8, **limits})
    scheduler = Scheduler(config)
    sequences = []
    for text, count in zip(texts, prompts, strict=True):
        request = Request(prompt=tuple(text[:count]), sink=Recorder())
        sequences += scheduler.add(request, runner.root_hash(request))
    rows: dict = {sequence: [] for sequence in sequences}
    while scheduler.busy:
        chunks = scheduler.schedule()
        logits = runner.forward(chunks)
        scheduler.computed(chunks)
        for chunk, row in zip([c for c in chunks if c.samples], logits, strict=True):
            rows[chunk.sequence].append(row)
            text = texts[sequences.index(chunk.sequence)]
            if len(chunk.sequence.tokens) == len(text):
                scheduler.remove(chunk.sequence)
            else:
                chunk.sequence.tokens.append(text[len(chunk.sequence.tokens)])
    return [torch.stack(rows[sequence]) for sequence in sequences]


def assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.shape == expected.shape
    assert (found - expected).abs().max().item() < TOLERANCE


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def checkpoint(request, tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp(request.param), request.param)


def test_a_prompt_and_its_continuation_are_right(checkpoint):
    text = tokens(60)
    expected = checkpoint.logits(text)
    assert expected.std() > 0.1
    assert_close(followed(checkpoint.runner(), [text], [40])[0], expected[39:])


def test_every_position_of_a_text_is_right_from_the_first(checkpoint):
    text = tokens(30)
    assert_close(followed(checkpoint.runner(), [text], [1])[0], checkpoint.logits(text))


def test_five_together_in_chunks_are_right(checkpoint):
    texts = [tokens(n, seed=n) for n in (5, 17, 33, 48, 60)]
    found = followed(checkpoint.runner(), texts, [3, 16, 30, 33, 41], max_batch_tokens=13)
    for text, rows in zip(texts, found, strict=True):
        assert_close(rows, checkpoint.logits(text)[-len(rows) :])


def test_a_cached_prefix_is_as_right_as_a_cold_one(checkpoint):
    shared = tokens(35)
    texts = [shared + tokens(n, seed=n) for n in (4, 9, 20)]
    found = followed(checkpoint.runner(), texts, [36, 40, 50])
    for text, rows in zip(texts, found, strict=True):
        assert_close(rows, checkpoint.logits(text)[-len(rows) :])


def test_the_fast_attention_equals_the_reference(checkpoint):
    texts = [tokens(n, seed=n) for n in (20, 47, 60)]
    fast = followed(checkpoint.runner(), texts, [10, 40, 20], max_batch_tokens=25)
    plain = followed(checkpoint.runner(attention=ReferenceAttention()), texts, [10, 40, 20], max_batch_tokens=25)
    for one, other in zip(fast, plain, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("rope", sorted(ROPES))
@pytest.mark.parametrize("chunk", [16, 512])
@pytest.mark.parametrize("length", [20, 64, 65, 230])
def test_positions_up_to_and_far_past_the_original_context(tmp_path, rope, chunk, length):
    """Length-dependent kinds are compared on prompts only: see test_dynamic_... for what follows them."""
    parameters = {"rope_theta": 10_000.0, **ROPES[rope]}
    checkpoint = make_checkpoint(
        tmp_path, "phi3" if rope == "longrope" else "llama", rope_parameters=parameters, **_lengths(rope)
    )
    text = tokens(length)
    found = followed(checkpoint.runner(), [text], [length], max_batch_tokens=chunk)[0]
    assert_close(found, checkpoint.logits(text)[-1:])


def _lengths(rope: str) -> dict:
    return {"max_position_embeddings": 256, "original_max_position_embeddings": 64} if rope == "longrope" else {}


@pytest.mark.parametrize("rope", ["dynamic", "longrope"])
@pytest.mark.parametrize("prompt", [30, 70])
def test_what_follows_a_prompt_under_length_dependent_rope_is_as_the_reference_caches_it(tmp_path, rope, prompt):
    parameters = {"rope_theta": 10_000.0, **ROPES[rope]}
    checkpoint = make_checkpoint(
        tmp_path, "phi3" if rope == "longrope" else "llama", rope_parameters=parameters, **_lengths(rope)
    )
    text = tokens(100)
    cache = transformers.DynamicCache(config=checkpoint.original.config)
    expected = []
    with torch.inference_mode():
        for part in [text[:prompt], *([token] for token in text[prompt:])]:
            expected.append(checkpoint.original(torch.tensor([part]), cache=cache, use_cache=True).logits[0, -1])
    found = followed(checkpoint.runner(), [text], [prompt], max_batch_tokens=16)[0]
    assert_close(found, torch.stack(expected))


def test_prompts_of_different_length_past_the_original_context_do_not_share_blocks_under_dynamic_rope(tmp_path):
    parameters = {"rope_theta": 10_000.0, **ROPES["dynamic"]}
    checkpoint = make_checkpoint(tmp_path, "llama", rope_parameters=parameters)
    text = tokens(120)
    found = followed(checkpoint.runner(), [text[:100], text, text[:100]], [100, 120, 100])
    for rows, length in zip(found, (100, 120, 100), strict=True):
        assert_close(rows, _fresh_logits(tmp_path, checkpoint, text[:length])[-1:])


def _fresh_logits(folder, checkpoint, text):
    """The reference remembers the longest text it has seen, so it must be loaded anew."""
    reference = type(checkpoint.original).from_pretrained(folder)
    with torch.inference_mode():
        return reference(torch.tensor([text]), use_cache=False).logits[0]
