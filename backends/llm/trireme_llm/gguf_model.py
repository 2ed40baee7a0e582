"""A GGUF file seen as the checkpoint it was made from: its config.json, and tensors under their first names.

Key and tensor names are those of the GGUF specification; what its converter changed is changed back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from trireme_llm.errors import UnsupportedCheckpoint
from trireme_llm.gguf_file import GgufFile

MODEL_TYPES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3_text", "phi3": "phi3"}
GEMMA = "gemma3"
COMMON_KEYS = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
}
# Said elsewhere, or equal to another key in every model of these types.
IMPLIED_KEYS = {"attention.value_length", "vocab_size", "rope.dimension_count", "rope.scaling.original_context_length"}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
GEMMA_NAMES = {
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
PHI3_NAMES = {"ffn_up": "mlp.gate_up_proj"}
TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
ROPE_FACTORS = "rope_freqs.weight"  # Llama 3.1's stretched wavelengths, one divisor per frequency


def architecture(file: GgufFile) -> str:
    name = file.string("general.architecture")
    if name not in MODEL_TYPES:
        raise UnsupportedCheckpoint(f"GGUF architecture {name!r} is not understood; known: {', '.join(MODEL_TYPES)}")
    return name


def config_json(file: GgufFile) -> dict[str, object]:
    """What the original's config.json says, for read_decoder_config. Raises UnsupportedCheckpoint."""
    name = architecture(file)
    prefix = f"{name}."
    ours = {key.removeprefix(prefix): value for key, value in file.values.items() if key.startswith(prefix)}
    config: dict[str, object] = {
        "model_type": MODEL_TYPES[name],
        "vocab_size": len(file.strings("tokenizer.ggml.tokens")),
        "hidden_act": "gelu_pytorch_tanh" if name == GEMMA else "silu",
        "tie_word_embeddings": "output.weight" not in file.tensor_names,
        **{theirs: ours[key] for key, theirs in COMMON_KEYS.items() if key in ours},
        **_rope(file, ours),
    }
    if name == GEMMA:
        config["query_pre_attn_scalar"] = _gemma_attention_scalar(config)
        config["rope_local_base_freq"] = 10_000.0
    unknown = sorted(set(ours) - set(COMMON_KEYS) - IMPLIED_KEYS - {"rope.scaling.type", "rope.scaling.factor"})
    if unknown:
        raise UnsupportedCheckpoint(f"{file.path} has keys this engine does not understand: {', '.join(unknown)}")
    return config


def _gemma_attention_scalar(config: dict[str, object]) -> object:
    """The head size, but for the 27B model, whose queries are scaled by hidden_size / heads."""
    if config["num_hidden_layers"] == 62:
        return int(str(config["hidden_size"])) // int(str(config["num_attention_heads"]))
    return config["head_dim"]


def _rope(file: GgufFile, ours: Mapping[str, object]) -> dict[str, object]:
    if ROPE_FACTORS in file.tensor_names:
        factors = file.tensor(ROPE_FACTORS).tolist()
        scaling = {"short_factor": factors, "long_factor": factors, "factor": 1.0, "attention_factor": 1.0}
        return {"rope_scaling": {"rope_type": "longrope", **scaling}}
    kind = ours.get("rope.scaling.type", "none")
    if kind == "none":
        return {}
    if kind not in {"linear", "yarn"}:
        raise UnsupportedCheckpoint(f"GGUF RoPE scaling {kind!r} is not understood; known: none, linear, yarn")
    scaled = {"rope_type": kind, "factor": ours["rope.scaling.factor"]}
    if kind == "yarn":
        scaled["original_max_position_embeddings"] = ours["rope.scaling.original_context_length"]
    return {"rope_scaling": scaled}


@dataclass(frozen=True)
class _Place:
    gguf_name: str
    norm: bool
    heads: int | None  # number of heads whose rows the converter interleaved


class GgufSource:
    """The file's tensors as a WeightSource."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self._architecture = architecture(file)
        heads = file.integer(f"{self._architecture}.attention.head_count")
        kv_key = f"{self._architecture}.attention.head_count_kv"
        kv_heads = file.integer(kv_key) if kv_key in file.values else heads
        self._interleaved = {"attn_q": heads, "attn_k": kv_heads} if self._architecture == "llama" else {}
        self._places = dict(self._place(name) for name in file.tensor_names if name != ROPE_FACTORS)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._places)

    def get(self, name: str) -> Tensor:
        place = self._places[name]
        tensor = self._file.tensor(place.gguf_name)
        if place.norm and self._architecture == GEMMA:
            tensor = tensor - 1.0  # stored with Gemma's offset added
        return tensor if place.heads is None else _restore_halves(tensor, place.heads)

    def _place(self, gguf_name: str) -> tuple[str, _Place]:
        stem, _, kind = gguf_name.rpartition(".")
        if not stem.startswith("blk."):
            return self._named(TOP_NAMES, stem, "", kind, gguf_name)
        _, layer, part = stem.split(".", 2)
        extra = {"gemma3": GEMMA_NAMES, "phi3": PHI3_NAMES}.get(self._architecture, {})
        return self._named({**LAYER_NAMES, **extra}, part, f"model.layers.{layer}.", kind, gguf_name)

    def _named(self, names: dict[str, str], part: str, prefix: str, kind: str, gguf_name: str) -> tuple[str, _Place]:
        if part not in names:
            raise UnsupportedCheckpoint(f"{self._file.path} has a tensor without a place: {gguf_name!r}")
        place = _Place(gguf_name, norm=part.endswith("norm"), heads=self._interleaved.get(part))
        return f"{prefix}{names[part]}.{kind}", place


def _restore_halves(tensor: Tensor, heads: int) -> Tensor:
    """The converter pairs the rows that are rotated together; here they stand in halves."""
    rows = tensor.shape[0]
    return tensor.view(heads, rows // heads // 2, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)
