"""What is known of each architecture: which keys of `config.json` matter, and how its tensors are named. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


def _keys(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Keys that say how a model was made or trained, or what it prints: no answer depends on them.
_BOOKKEEPING = _keys("""
    _name_or_path architectures transformers_version torch_dtype dtype use_cache gradient_checkpointing
    initializer_range attention_probs_dropout_prob hidden_dropout_prob classifier_dropout problem_type
    output_attentions output_hidden_states return_dict tie_word_embeddings bos_token_id eos_token_id pad_token_id
    id2label label2id finetuning_task
""")


@dataclass(frozen=True, kw_only=True)
class Family:
    """One `model_type` of Transformers."""

    model_type: str
    understood: frozenset[str]  # keys that its definition reads
    fixed: Mapping[str, object]  # keys that may be there with this value only
    irrelevant: frozenset[str] = _BOOKKEEPING
    prefixes: tuple[str, ...] = ()  # that a tensor's name may carry, with a task's head around the encoder
    renamed: Mapping[str, str] = field(default_factory=dict)  # old endings of tensor names
    ignorable: tuple[str, ...] = ()  # patterns of tensors that the encoder does not have


FAMILIES = {
    family.model_type: family
    for family in (
        Family(
            model_type="bert",
            understood=_keys("""
                model_type vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act
                max_position_embeddings type_vocab_size layer_norm_eps
            """),
            fixed={
                "is_decoder": False,
                "is_encoder_decoder": False,
                "add_cross_attention": False,
                "position_embedding_type": "absolute",
                "chunk_size_feed_forward": 0,
            },
            prefixes=("bert.",),
            renamed={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
            ignorable=("embeddings.position_ids", "pooler.*", "cls.*"),
        ),
    )
}
