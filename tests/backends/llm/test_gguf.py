"""GGUF files written from tiny random checkpoints, read back, and followed against Transformers."""

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize, quantize
from llm_checkpoints import Checkpoint as Original
from llm_checkpoints import make_checkpoint
from test_decoder import assert_close, followed, tokens
from trireme_llm.attention import PagedAttention
from trireme_llm.build import build_decoder
from trireme_llm.checkpoint import open_checkpoint
from trireme_llm.errors import UnsupportedCheckpoint
from trireme_llm.gguf_file import GgufFile
from trireme_llm.model_runner import ModelRunner

SIZES = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "num_attention_heads": 4}
ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3", "phi3": "phi3"}
FIRST_NAMES = {
    "llama": {},
    "gemma3": {
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    },
}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str, family: str) -> str:
    stem, kind = name.rsplit(".", 1)
    layer = ""
    if stem.startswith("model.layers."):
        _, _, index, stem = stem.split(".", 3)
        layer = f"blk.{index}."
    return f"{layer}{({**NAMES, **FIRST_NAMES.get(family, {})})[stem]}.{kind}"


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to q and k of Llama models."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path, original: Original, family: str, kind: GGMLQuantizationType, extra=()) -> None:
    config = original.original.config
    writer = GGUFWriter(path, ARCHITECTURES[family])
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if family == "gemma3":
        writer.add_sliding_window(config.sliding_window)
        writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
    else:
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if family != "phi3":
        writer.add_key_length(config.head_dim if hasattr(config, "head_dim") else 16)
    add_tokenizer(writer, config.vocab_size)
    for add in extra:
        add(writer)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, tensor in original.original.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        data = tensor.float().numpy()
        if family == "gemma3" and "norm" in name:
            data = data + 1
        for part, count in heads.items():
            if family == "llama" and part in name:
                data = interleave(data, count)
        if tensor.dim() == 2 and kind is not GGMLQuantizationType.F32:
            packed = quantize(data, kind)
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(restore(dequantize(packed, kind), name, family, heads)))
            writer.add_tensor(gguf_name(name, family), packed, raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(name, family), data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def restore(data: np.ndarray, name: str, family: str, heads: dict[str, int]) -> np.ndarray:
    for part, count in heads.items():
        if family == "llama" and part in name:
            return data.reshape(count, data.shape[0] // count // 2, 2, -1).swapaxes(1, 2).reshape(data.shape)
    return data


def add_tokenizer(writer: GGUFWriter, size: int) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([chr(33 + i) for i in range(size - 3)] + ['!"', "<end>", "[PAD]"])
    writer.add_token_types([1] * (size - 2) + [3, 5])
    writer.add_token_merges(['! "'])
    writer.add_eos_token_id(size - 2)


def runner(path) -> ModelRunner:
    checkpoint = open_checkpoint(path)
    return ModelRunner(build_decoder(checkpoint.config, checkpoint.source, PagedAttention(), torch.float32), 64, 16)


@pytest.mark.parametrize("family", sorted(ARCHITECTURES))
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1"])
def test_a_gguf_gives_the_logits_of_what_it_was_made_from(tmp_path, family, kind):
    sizes = {k: v for k, v in SIZES.items() if family not in ("phi3", "qwen2") or k != "head_dim"}
    more = {"query_pre_attn_scalar": 16} if family == "gemma3" else {}
    original = make_checkpoint(tmp_path / "original", family, **sizes, tie_word_embeddings=family == "gemma3", **more)
    write_gguf(tmp_path / "model.gguf", original, family, GGMLQuantizationType[kind])
    text = tokens(50)
    assert_close(followed(runner(tmp_path / "model.gguf"), [text], [30])[0], original.logits(text)[29:])


def test_the_end_of_sequence_of_a_gguf_is_known(tmp_path):
    original = make_checkpoint(tmp_path / "original", "llama", **SIZES)
    write_gguf(tmp_path / "model.gguf", original, "llama", GGMLQuantizationType.F32)
    assert open_checkpoint(tmp_path / "model.gguf").end_ids == frozenset({94})


def test_a_key_that_is_not_understood_is_named(tmp_path):
    original = make_checkpoint(tmp_path / "original", "llama", **SIZES)
    extra = [lambda writer: writer.add_uint32("llama.attention.twist", 3)]
    write_gguf(tmp_path / "model.gguf", original, "llama", GGMLQuantizationType.F32, extra)
    with pytest.raises(UnsupportedCheckpoint, match=r"attention\.twist"):
        open_checkpoint(tmp_path / "model.gguf")


@pytest.mark.parametrize("keep", [3, 100, 5000, -64])
def test_a_file_cut_short_is_refused(tmp_path, keep):
    original = make_checkpoint(tmp_path / "original", "llama", **SIZES)
    path = tmp_path / "model.gguf"
    write_gguf(path, original, "llama", GGMLQuantizationType.F32)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UnsupportedCheckpoint):
        GgufFile(path)


def test_pickles_are_refused_with_advice(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"\x80\x02")
    with pytest.raises(UnsupportedCheckpoint, match="safetensors"):
        open_checkpoint(path)
