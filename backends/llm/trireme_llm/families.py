"""From a checkpoint's config.json to a DecoderConfig, strictly: what is not understood is refused by name.

Names and defaults are those of the Transformers library's configuration classes, whose files these are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from trireme_llm.config_reader import ConfigReader
from trireme_llm.decoder_config import Activation, DecoderConfig, ExpertsConfig, LayerConfig, TensorNames
from trireme_llm.errors import UnsupportedCheckpoint
from trireme_llm.rope_config import read_ropes


class Windows(Enum):
    """Which layers have a sliding window, where the config has no list of layer types."""

    ALL = "all"  # if there is a window at all
    LATER = "later"  # from max_window_layers on, if use_sliding_window
    ALTERNATE = "alternate"  # every second one, beginning with the first
    PATTERN = "pattern"  # all but every n-th


@dataclass(frozen=True, kw_only=True)
class Family:
    """What a model type implies beyond its config.json."""

    windows: Windows = Windows.ALL
    tensor_names: TensorNames = TensorNames.PLAIN
    qkv_bias: bool | None = None  # None: the config's attention_bias, which then holds for the output too
    qk_norm: bool = False
    gemma: bool = False  # sandwich norms, norm weights around zero, scaled embeddings, tied head
    eps: float = 1e-6


FAMILIES: Mapping[str, Family] = {
    "llama": Family(),
    "mistral": Family(qkv_bias=False),
    "qwen2": Family(windows=Windows.LATER, qkv_bias=True),
    "qwen3": Family(windows=Windows.LATER, qk_norm=True),
    "gemma2": Family(windows=Windows.ALTERNATE, gemma=True),
    "gemma3_text": Family(windows=Windows.PATTERN, qk_norm=True, gemma=True),
    "phi3": Family(tensor_names=TensorNames.FUSED, qkv_bias=False, eps=1e-5),
    "mixtral": Family(tensor_names=TensorNames.MIXTRAL, qkv_bias=False, eps=1e-5),
    "qwen3_moe": Family(windows=Windows.LATER, qk_norm=True),
}
ARCHITECTURES: Mapping[str, str] = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}
# Training, generation defaults (read elsewhere), provenance: nothing that changes a forward pass.
IRRELEVANT = frozenset(
    {
        "_name_or_path",
        "attention_dropout",
        "auto_map",
        "bos_token_id",
        "cache_implementation",
        "dtype",
        "embd_pdrop",
        "eos_token_id",
        "initializer_range",
        "output_router_logits",
        "pad_token_id",
        "resid_pdrop",
        "return_dict",
        "router_aux_loss_coef",
        "router_jitter_noise",
        "torch_dtype",
        "transformers.js_config",
        "transformers_version",
        "unsloth_fixed",
        "use_cache",
    }
)
# Keys that may be there as long as they say nothing unusual.
EXPECTED: Mapping[str, object] = {
    "pretraining_tp": 1,
    "rope_interleaved": False,
    "is_llama_config": True,
    "use_mrope": False,
    "use_bidirectional_attention": False,
}


def read_decoder_config(config: Mapping[str, object]) -> DecoderConfig:
    """Raises UnsupportedCheckpoint, naming the key and what is understood."""
    reader = ConfigReader(config, "config.json")
    decoder = _decoder(reader, _family(reader))
    for key, expected in EXPECTED.items():
        if reader.optional(key, type(expected), expected) != expected:
            raise UnsupportedCheckpoint(f"config.json: {key!r} is {config[key]!r}; only {expected!r} is understood")
    reader.refuse_unread(IRRELEVANT)
    return decoder


def _family(reader: ConfigReader) -> Family:
    model_type = reader.required("model_type", str)
    if model_type not in FAMILIES:
        raise UnsupportedCheckpoint(f"model type {model_type!r} is not understood; known: {', '.join(FAMILIES)}")
    for architecture in reader.optional("architectures", list, []):
        if architecture != ARCHITECTURES[model_type]:
            raise UnsupportedCheckpoint(
                f"architecture {architecture!r} is not understood; for {model_type!r}: {ARCHITECTURES[model_type]}"
            )
    return FAMILIES[model_type]


def _decoder(reader: ConfigReader, family: Family) -> DecoderConfig:
    hidden_size = reader.required("hidden_size", int)
    num_heads = reader.required("num_attention_heads", int)
    head_dim = reader.optional("head_dim", int, hidden_size // num_heads)
    attention_bias = reader.optional("attention_bias", bool, False)
    return DecoderConfig(
        vocab_size=reader.required("vocab_size", int),
        hidden_size=hidden_size,
        intermediate_size=reader.required("intermediate_size", int),
        num_heads=num_heads,
        num_kv_heads=reader.optional("num_key_value_heads", int, num_heads),
        head_dim=head_dim,
        max_length=reader.required("max_position_embeddings", int),
        layers=_layers(reader, family, head_dim),
        activation=_activation(reader),
        rms_norm_eps=reader.optional("rms_norm_eps", float, family.eps),
        tied_head=reader.optional("tie_word_embeddings", bool, family.gemma),
        tensor_names=family.tensor_names,
        qkv_bias=attention_bias if family.qkv_bias is None else family.qkv_bias,
        output_bias=attention_bias and family.qkv_bias is None,
        mlp_bias=reader.optional("mlp_bias", bool, False),
        qk_norm=family.qk_norm,
        sandwich_norms=family.gemma,
        norm_offset=1.0 if family.gemma else 0.0,
        embedding_scale=math.sqrt(hidden_size) if family.gemma else 1.0,
        attention_scale=reader.optional("query_pre_attn_scalar", float, float(head_dim)) ** -0.5,
        attention_softcap=reader.maybe("attn_logit_softcapping", float),
        logit_softcap=reader.maybe("final_logit_softcapping", float),
    )


def _activation(reader: ConfigReader) -> Activation:
    older = reader.maybe("hidden_act", str)
    name = reader.maybe("hidden_activation", str) or older
    if name == "gelu_new":
        name = Activation.GELU_TANH.value
    if name not in {activation.value for activation in Activation}:
        known = ", ".join(activation.value for activation in Activation)
        raise UnsupportedCheckpoint(f"config.json: activation {name!r} is not understood; known: {known}")
    return Activation(name)


def _layers(reader: ConfigReader, family: Family, head_dim: int) -> tuple[LayerConfig, ...]:
    window = reader.maybe("sliding_window", int)
    sliding = _sliding(reader, family, reader.required("num_hidden_layers", int), window)
    full_rope, sliding_rope = read_ropes(reader, head_dim)
    experts = _experts(reader, family)
    return tuple(
        LayerConfig(
            rope=sliding_rope if slides else full_rope,
            window=window if slides else None,
            experts=layer_experts,
        )
        for slides, layer_experts in zip(sliding, _expert_layers(reader, experts, len(sliding)), strict=True)
    )


def _sliding(reader: ConfigReader, family: Family, num_layers: int, window: int | None) -> list[bool]:
    """For each layer, whether it has the window."""
    implied = _implied_sliding(reader, family, num_layers, window)
    names = {"full_attention": False, "sliding_attention": True}
    listed = reader.optional("layer_types", list, [])
    if not listed:
        return implied
    unknown = sorted(set(listed) - set(names))
    if unknown or len(listed) != num_layers:
        raise UnsupportedCheckpoint(
            f"config.json: layer_types is {listed}; {num_layers} of {', '.join(names)} are needed"
        )
    return [names[name] and window is not None for name in listed]


def _implied_sliding(reader: ConfigReader, family: Family, num_layers: int, window: int | None) -> list[bool]:
    first = reader.optional("max_window_layers", int, 0)
    used = reader.optional("use_sliding_window", bool, family.windows is not Windows.LATER) and window is not None
    pattern = reader.optional("sliding_window_pattern", int, reader.optional("_sliding_window_pattern", int, 6))
    match family.windows:
        case Windows.ALL:
            slides = [True] * num_layers
        case Windows.LATER:
            slides = [layer >= first for layer in range(num_layers)]
        case Windows.ALTERNATE:
            slides = [layer % 2 == 0 for layer in range(num_layers)]
        case Windows.PATTERN:
            slides = [(layer + 1) % pattern != 0 for layer in range(num_layers)]
    return [used and slide for slide in slides]


def _experts(reader: ConfigReader, family: Family) -> ExpertsConfig | None:
    count = reader.maybe("num_local_experts", int) or reader.maybe("num_experts", int)
    if count is None:
        return None
    mixtral = family.tensor_names is TensorNames.MIXTRAL
    size_key = "intermediate_size" if mixtral else "moe_intermediate_size"
    return ExpertsConfig(
        count=count,
        per_token=reader.required("num_experts_per_tok", int),
        intermediate_size=reader.required(size_key, int),
        renormalize=mixtral or reader.optional("norm_topk_prob", bool, False),
    )


def _expert_layers(reader: ConfigReader, experts: ExpertsConfig | None, num_layers: int) -> list[ExpertsConfig | None]:
    step = reader.optional("decoder_sparse_step", int, 1)
    dense = reader.optional("mlp_only_layers", list, [])
    return [experts if layer not in dense and (layer + 1) % step == 0 else None for layer in range(num_layers)]
