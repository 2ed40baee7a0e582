"""Tiny random checkpoints of every family, made by the Transformers library, which is also the reference."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from trireme_llm.attention import PagedAttention
from trireme_llm.build import build_decoder
from trireme_llm.families import read_decoder_config
from trireme_llm.model_runner import ModelRunner
from trireme_llm.weights import SafetensorsSource

SIZES = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.15,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-biased": ("Llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "mistral": ("Mistral", {"sliding_window": 20, "head_dim": 16}),
    "qwen2": ("Qwen2", {}),
    "qwen2-sliding": ("Qwen2", {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 2}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "gemma2": ("Gemma2", {"head_dim": 16, "sliding_window": 20, "query_pre_attn_scalar": 24}),
    "gemma3": ("Gemma3Text", {"head_dim": 16, "sliding_window": 20, "num_hidden_layers": 7}),
    "phi3": ("Phi3", {"sliding_window": None}),
    "mixtral": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "qwen3-moe": (
        "Qwen3Moe",
        {"head_dim": 16, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40},
    ),
    "qwen3-moe-mixed": (
        "Qwen3Moe",
        {
            "head_dim": 16,
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 40,
            "norm_topk_prob": True,
            "mlp_only_layers": [1],
        },
    ),
}
ROPES: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "yarn-mscale": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "mscale": 0.7,
        "mscale_all_dim": 1.2,
        "beta_fast": 16.0,
    },
    "longrope": {
        "rope_type": "longrope",
        "original_max_position_embeddings": 64,
        "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [1.0, 2.0, 3.0, 5.0],
    },
}


@dataclass(frozen=True)
class Checkpoint:
    """A saved model and the original it came from."""

    folder: Path
    original: Any

    def logits(self, tokens: list[int]) -> torch.Tensor:
        """The reference: (tokens, vocabulary), one whole forward pass."""
        with torch.inference_mode():
            return self.original(torch.tensor([tokens]), use_cache=False).logits[0].float()

    def runner(self, num_blocks: int = 64, block_size: int = 16, attention=None) -> ModelRunner:
        config = read_decoder_config(json.loads((self.folder / "config.json").read_text()))
        source = SafetensorsSource(self.folder)
        decoder = build_decoder(config, source, attention or PagedAttention(), torch.float32)
        return ModelRunner(decoder, num_blocks, block_size)


def make_checkpoint(folder: Path, name: str, seed: int = 0, **fields: Any) -> Checkpoint:
    class_name, family = FAMILIES[name]
    config = getattr(transformers, f"{class_name}Config")(**{**SIZES, **family, **fields})
    model_class = "Gemma3ForCausalLM" if class_name == "Gemma3Text" else f"{class_name}ForCausalLM"
    torch.manual_seed(seed)
    model = getattr(transformers, model_class)(config).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() == 1:  # norms and biases start as ones and zeros, which would hide mistakes
                parameter.normal_(1.0 if "norm" in parameter_name and "gemma" not in name else 0.0, 0.3)
    model.save_pretrained(folder)
    return Checkpoint(folder, model)
