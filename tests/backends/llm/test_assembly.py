"""From a checkpoint on disk to a running engine, and what the machine allows."""

import json

import pytest
import torch
from llm_checkpoints import make_checkpoint
from llm_fakes import Recorder, run
from test_structure import byte_tokenizer
from trireme_llm import __main__ as command
from trireme_llm.checkpoint import open_checkpoint
from trireme_llm.engine_config import EngineConfig, Precision
from trireme_llm.errors import UnsupportedCheckpoint
from trireme_llm.load import load_engine, scheduler_config
from trireme_llm.parameters import config_from
from trireme_llm.request import FinishReason, Request, SamplingParams
from trireme_llm.resources import free_memory, usable_cores
from trireme_llm.token_bytes import token_bytes
from trireme_llm.workloads import Workload, run_workload

BLOCK_BYTES = 2 * 4 * 2 * 8 * 16 * 4  # keys and values, layers, kv heads, head size, tokens, bytes per number
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    made = make_checkpoint(tmp_path_factory.mktemp("model"), "qwen2", vocab_size=258, max_position_embeddings=512)
    tokenizer = byte_tokenizer()
    tokenizer.save(str(made.folder / "tokenizer.json"))
    (made.folder / "chat_template.jinja").write_text(TEMPLATE)
    return made


def config(checkpoint, **fields):
    limits = {"precision": Precision.FP32, "kv_cache_bytes": 1 << 20, "threads": 1}
    return EngineConfig(checkpoint=checkpoint.folder, **{**limits, **fields})


def greedy(prompt, count=20, **fields):
    sampling = SamplingParams(max_tokens=count, temperature=0, ignore_eos=True, **fields)
    return Request(prompt=tuple(prompt), sink=Recorder(), sampling=sampling)


def reference(checkpoint, prompt, count=20):
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(checkpoint.logits(tokens)[-1].argmax()))
    return tokens[len(prompt) :]


def prompts(lengths):
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(3, 250, (n,), generator=generator).tolist() for n in lengths]


def test_greedy_tokens_equal_the_reference_alone_together_preempted_and_cached(checkpoint):
    lengths = [1, 7, 16, 33, 60, 100]
    expected = [reference(checkpoint, prompt) for prompt in prompts(lengths)]
    small_pool = 9 * BLOCK_BYTES  # the longest needs eight: they push each other out
    for fields in ({}, {"kv_cache_bytes": small_pool}, {"max_batch_tokens": 64}, {"max_running": 1}):
        engine = load_engine(config(checkpoint, **fields))
        requests = [greedy(prompt) for prompt in prompts(lengths)] + [greedy(prompts(lengths)[-1])]
        for each in requests:
            engine.add(each)
        run(engine)
        assert [each.sink.tokens() for each in requests] == [*expected, expected[-1]]


def test_memory_does_not_grow_with_requests(checkpoint):
    engine = load_engine(config(checkpoint))
    for i in range(300):
        engine.add(greedy([3 + i % 200, 5, 7], 2))
        if i % 20 == 19:
            run(engine)
    assert not engine._choices
    assert engine.scheduler.pool.num_free == engine.scheduler.pool.num_blocks


def test_a_stop_sequence_is_found_in_the_bytes_of_tokens(checkpoint):
    prompt = prompts([10])[0]
    engine = load_engine(config(checkpoint))
    table = token_bytes(byte_tokenizer(), 258)
    expected = reference(checkpoint, prompt)
    stop = b"".join(table[token] for token in expected[5:7])
    asked = greedy(prompt, stop_sequences=(stop,))
    engine.add(asked)
    run(engine)
    assert asked.sink.final.finish_reason is FinishReason.STOP
    assert b"".join(table[token] for token in asked.sink.tokens()) + stop in b"".join(table[t] for t in expected)


def test_ends_of_sequence_are_the_union_of_config_and_generation_config(checkpoint):
    path = checkpoint.folder / "generation_config.json"
    before = path.read_text()
    path.write_text(json.dumps({"eos_token_id": [0, 7]}))
    assert open_checkpoint(checkpoint.folder).end_ids == {0, 2, 7}
    path.write_text(before)


def test_the_pool_is_what_the_budget_pays_for(checkpoint):
    opened = open_checkpoint(checkpoint.folder)
    assert scheduler_config(opened.config, config(checkpoint, kv_cache_bytes=10 * BLOCK_BYTES)).num_blocks == 10
    assert scheduler_config(opened.config, config(checkpoint, kv_cache_bytes=1 << 40, max_running=2)).num_blocks == 64
    with pytest.raises(UnsupportedCheckpoint, match=str(BLOCK_BYTES)):
        scheduler_config(opened.config, config(checkpoint, kv_cache_bytes=BLOCK_BYTES - 1))


def test_processors_and_memory_are_read_from_the_control_group(tmp_path):
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "memory.max").write_text("5000000\n")
    (tmp_path / "memory.current").write_text("2000000\n")
    assert usable_cores(tmp_path) in (1, 2)
    assert free_memory(tmp_path) == 3_000_000
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert usable_cores(tmp_path) >= 1
    assert free_memory(tmp_path) > 3_000_000


@pytest.mark.parametrize(
    ("parameters", "named"),
    [({"blocksize": "16"}, "blocksize"), ({"max_running": "-1"}, "max_running"), ({"precision": "fp8"}, "fp8")],
)
def test_a_wrong_parameter_keeps_the_model_from_loading(tmp_path, parameters, named):
    with pytest.raises(ValueError, match=named):
        config_from(parameters, tmp_path)


def test_parameters_reach_the_configuration(tmp_path):
    read = config_from({"checkpoint": "weights", "precision": "fp32", "trireme.threads": "3"}, tmp_path)
    assert (read.checkpoint, read.precision, read.threads) == (tmp_path / "weights", Precision.FP32, 3)


def run_command(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["trireme_llm", *map(str, arguments)])
    return command.main()


def test_generate_answers_and_continues(checkpoint, monkeypatch, capsys):
    common = (checkpoint.folder, "--precision", "fp32", "--threads", "1", "--max-tokens", "5")
    assert run_command(monkeypatch, "generate", *common[:1], "hello", *common[1:]) == 0
    assert run_command(monkeypatch, "generate", *common[:1], "hello", "--plain", *common[1:]) == 0
    assert capsys.readouterr().out.count("\n") >= 2


def test_evaluate_prints_perplexity_and_no_divergence_for_fp32(checkpoint, monkeypatch, capsys, tmp_path):
    text = tmp_path / "text"
    text.write_text("An oar is a long lever. " * 60)
    arguments = ("evaluate", checkpoint.folder, text, "--threads", "1", "--precision")
    assert run_command(monkeypatch, *arguments, "fp32") == 0
    exact = capsys.readouterr().out
    assert "divergence from fp32 0.000000" in exact
    assert run_command(monkeypatch, *arguments, "bf16") == 0
    rough = capsys.readouterr().out
    assert "divergence from fp32 0.000000" not in rough


def test_an_unusable_checkpoint_is_one_line_of_error(monkeypatch, capsys, tmp_path):
    assert run_command(monkeypatch, "generate", tmp_path, "hello") == 1
    assert "config.json" in capsys.readouterr().err


def test_a_workload_is_measured(checkpoint):
    engine = load_engine(config(checkpoint))
    measured = run_workload(engine, Workload("tiny", 3, 6, 40, 8, shared=32))
    assert measured.tokens_per_s > 0
    assert engine.scheduler.stats.prefix_hit_tokens >= 5 * 32
