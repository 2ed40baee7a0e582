"""Real checkpoints, where they are: set TRIREME_TEST_CHECKPOINTS to the folder that holds the files.

Greedy tokens are compared with one whole forward pass of Transformers over prompt and output: if every token is the
likeliest after the ones before it, the text is the one that greedy decoding gives.
"""

import hashlib
import json
import os
from pathlib import Path
from random import Random

import pytest
import torch
from llm_fakes import Recorder, run
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from trireme_llm.checkpoint import open_checkpoint
from trireme_llm.engine_config import EngineConfig, Precision
from trireme_llm.gguf_file import GgufFile
from trireme_llm.gguf_model import config_json
from trireme_llm.load import engine_for
from trireme_llm.request import Request, SamplingParams

FOLDER = Path(os.environ.get("TRIREME_TEST_CHECKPOINTS", "checkpoints"))
QWEN = FOLDER / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
GEMMA = FOLDER / "gemma-3-270m-q4_k_m.gguf"
DIGESTS = {
    QWEN: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    GEMMA: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
}
ARCHITECTURES = {QWEN: "Qwen2ForCausalLM", GEMMA: "Gemma3ForCausalLM"}
NUM_PROMPTS, NEW_TOKENS = 20, 64
NEAR_TIE = 2e-4  # logits this close may be ordered by rounding

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[QWEN, GEMMA], ids=["qwen", "gemma"])
def checkpoint(request):
    if not request.param.exists():
        pytest.skip(f"{request.param} is not there")
    assert hashlib.sha256(request.param.read_bytes()).hexdigest() == DIGESTS[request.param]
    return open_checkpoint(request.param)


@pytest.fixture(scope="module")
def reference(checkpoint, tmp_path_factory):
    """The same weights as Transformers reads them from safetensors."""
    folder = tmp_path_factory.mktemp("reference")
    source = checkpoint.source
    tensors = {name: source.get(name).contiguous() for name in source.names}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = config_json(GgufFile(checkpoint.path))
    config["hidden_activation"] = config["hidden_act"]
    (folder / "config.json").write_text(json.dumps({**config, "architectures": [ARCHITECTURES[checkpoint.path]]}))
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def prompts(checkpoint) -> list[tuple[int, ...]]:
    """Cuts of 10 to 2,000 tokens from the standard library's sources."""
    sources = sorted(Path(os.__file__).parent.glob("*.py"))[:60]
    text = "".join(path.read_text(errors="ignore") for path in sources)[:400_000]
    encoded = checkpoint.tokenizer.encode(text, add_special_tokens=False).ids
    first = checkpoint.tokenizer.encode("").ids  # a beginning of sequence, where the model has one
    random = Random(11)
    cut = []
    for index in range(NUM_PROMPTS):
        length = round(10 * 200 ** (index / (NUM_PROMPTS - 1)))
        start = random.randrange(len(encoded) - length)
        cut.append((*first, *encoded[start : start + length - len(first)]))
    return cut


def test_greedy_text_equals_transformers(checkpoint, reference):
    config = EngineConfig(checkpoint=checkpoint.path, precision=Precision.FP32, kv_cache_bytes=1 << 30, max_length=4096)
    engine = engine_for(checkpoint, config)
    sampling = SamplingParams(max_tokens=NEW_TOKENS, temperature=0, ignore_eos=True)
    requests = [Request(prompt=prompt, sink=Recorder(), sampling=sampling) for prompt in prompts(checkpoint)]
    for each in requests:
        engine.add(each)
    run(engine)
    for each in requests:
        output = each.sink.tokens()
        with torch.inference_mode():
            inputs = torch.tensor([[*each.prompt, *output[:-1]]])
            logits = reference(inputs, logits_to_keep=NEW_TOKENS).logits[0]
        below_best = logits.max(dim=-1).values - logits.gather(1, torch.tensor(output)[:, None])[:, 0]
        assert below_best.max().item() <= NEAR_TIE, f"prompt of {len(each.prompt)} tokens"


def test_the_tokenizer_behaves_as_published():
    if not QWEN.exists():
        pytest.skip(f"{QWEN} is not there")
    tokenizer = open_checkpoint(QWEN).tokenizer
    system = "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
    published = [151644, 8948, 198, 2610, 525, 1207, 16948, 11, 3465, 553, 54364, 14817]
    published += [13, 1446, 525, 264, 10950, 17847, 13, 151645, 198]
    assert tokenizer.encode(system).ids == published
    for text in ("naïve 漢字 🎉", "  indented\n\n\tcode", "1234567"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert len(tokenizer.encode("1234567").ids) == 7
