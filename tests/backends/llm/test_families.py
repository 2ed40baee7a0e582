"""Reading config.json: what real files say, and what is refused by name."""

import pytest
import torch
from llm_checkpoints import FAMILIES, make_checkpoint
from safetensors.torch import load_file, save_file
from trireme_llm.decoder_config import Activation, RopeKind
from trireme_llm.errors import UnsupportedCheckpoint
from trireme_llm.families import read_decoder_config
from trireme_llm.rope import inverse_frequencies

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": True,
    "pretraining_tp": 1,
    "torch_dtype": "bfloat16",
    "rope_theta": 500000.0,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
}
GEMMA = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "vocab_size": 262144,
    "hidden_size": 640,
    "intermediate_size": 2048,
    "num_hidden_layers": 18,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "query_pre_attn_scalar": 256,
    "max_position_embeddings": 32768,
    "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": None,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "use_bidirectional_attention": False,
    "cache_implementation": "hybrid",
}


def test_a_llama_3_config_in_the_older_spelling_is_read_whole():
    config = read_decoder_config(LLAMA)
    rope = config.layers[0].rope
    assert (rope.kind, rope.theta, rope.factor, rope.original_length) == (RopeKind.LLAMA3, 500000.0, 32.0, 8192)
    assert (config.tied_head, config.activation, config.qkv_bias) == (True, Activation.SILU, False)


def test_a_gemma_3_config_in_the_older_spelling_has_two_ropes_and_every_sixth_layer_global():
    config = read_decoder_config(GEMMA)
    assert [layer.window for layer in config.layers] == ([512] * 5 + [None]) * 3
    assert {(layer.window, layer.rope.theta) for layer in config.layers} == {(512, 1e4), (None, 1e6)}
    assert config.tied_head


def test_the_older_phi_3_spelling_of_longrope_is_understood():
    factors = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
    config = {
        **LLAMA,
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "su", **factors},
    }
    rope = read_decoder_config(config).layers[0].rope
    assert (rope.kind, rope.original_length) == (RopeKind.LONGROPE, 4096)
    assert rope.attention_factor == pytest.approx((1 + 5 / 12) ** 0.5)


def test_partial_rotation_turns_only_the_first_dimensions():
    rope = read_decoder_config({**LLAMA, "partial_rotary_factor": 0.5}).layers[0].rope
    assert inverse_frequencies(rope).shape == (16,)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "falcon"}, "falcon"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "LlamaForSequenceClassification"),
        ({"hidden_act": "swish7"}, "swish7"),
        ({"rope_scaling": {"rope_type": "spiral"}}, "spiral"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "twist": 1}}, "twist"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"attention_sinks": 4}, "attention_sinks"),
        ({"pretraining_tp": 2}, "pretraining_tp"),
        ({"hidden_size": "2048"}, "hidden_size"),
        ({"num_key_value_heads": True}, "num_key_value_heads"),
        ({"layer_types": ["linear_attention"] * 16}, "linear_attention"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(change, named):
    with pytest.raises(UnsupportedCheckpoint, match=named):
        read_decoder_config({**LLAMA, **change})


def test_a_missing_value_is_named():
    with pytest.raises(UnsupportedCheckpoint, match="vocab_size"):
        read_decoder_config({key: value for key, value in LLAMA.items() if key != "vocab_size"})


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_tensor_of_a_checkpoint_has_its_place_and_every_place_its_tensor(tmp_path, name):
    checkpoint = make_checkpoint(tmp_path, name)
    checkpoint.runner()
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "model.layers.0.mlp.surprise": torch.zeros(2)}, path)
    with pytest.raises(UnsupportedCheckpoint, match="surprise"):
        checkpoint.runner()
    lost = sorted(tensors)[len(tensors) // 2]
    save_file({key: value for key, value in tensors.items() if key != lost}, path)
    with pytest.raises(UnsupportedCheckpoint, match=lost):
        checkpoint.runner()


def test_a_tensor_of_another_shape_is_refused_with_both_shapes(tmp_path):
    checkpoint = make_checkpoint(tmp_path, "llama")
    path = tmp_path / "model.safetensors"
    save_file({**load_file(path), "model.norm.weight": torch.ones(47)}, path)
    with pytest.raises(UnsupportedCheckpoint, match=r"\(47,\).*\(48,\)"):
        checkpoint.runner()


def test_sharded_weights_give_the_same_model(tmp_path):
    checkpoint = make_checkpoint(tmp_path / "whole", "qwen2")
    checkpoint.original.save_pretrained(tmp_path / "sharded", max_shard_size="50KB")
    assert not (tmp_path / "sharded" / "model.safetensors").exists()
    one = checkpoint.runner().decoder
    other = type(checkpoint)(tmp_path / "sharded", checkpoint.original).runner().decoder
    assert torch.equal(one.embedding, other.embedding)
    assert torch.equal(one.norm, other.norm)


def test_a_truncated_file_is_refused(tmp_path):
    checkpoint = make_checkpoint(tmp_path, "llama")
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UnsupportedCheckpoint, match="cannot be read"):
        checkpoint.runner()
