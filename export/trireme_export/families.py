"""What each architecture calls its tensors and modules, and the config keys that need care. Data only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


def keys(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Keys that no config class declares, and that no answer depends on: how a model was made, saved or trained.
BOOKKEEPING = keys("""
    model_type _name_or_path torch_dtype gradient_checkpointing finetuning_task output_attentions output_past
    _attn_implementation_autoset torchscript use_cache num_labels _num_labels tokenizer_class
""")
# Keys that change what an encoder computes, by the only value that the exported graphs follow.
_PLAIN_ENCODER: Mapping[str, object] = {
    "is_decoder": False,
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "chunk_size_feed_forward": 0,
    "pruned_heads": {},
}
_SIZES = keys("""
    vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size max_position_embeddings
""")


class Placement(Enum):
    """How an encoder is told which tokens see each other, and where in its text each stands."""

    FROM_ZERO = "additive mask; the first token of a text has position 0"
    AFTER_PADDING = "additive mask; positions begin after that of padding, and padding inside a text is not counted"
    AFTER_PADDING_BY_DISTANCE = "the same, and a learned number for the distance of two tokens"
    PAIRS = "a mask of pairs for attention and one of tokens for the embeddings; positions from 0"
    SLIDING = "an additive mask for layers that see everything and one for those that see neighbours; positions from 0"


@dataclass(frozen=True, kw_only=True)
class Family:
    """One `model_type` of Transformers."""

    model_type: str
    encoder: str  # what the library's classifiers call their encoder; prefixes the names of its tensors
    head: tuple[str, ...]  # modules of the library's classifiers that make logits of a text's first token, in order
    logits: str = "classifier"  # the layer whose outputs are the logits, one for each label
    token_head: tuple[str, ...] = ("classifier",)  # the same of the library's token classifiers, for every token
    pooler: bool = False  # whether the encoder has one, made for its pretraining, that can be left out
    required: frozenset[str] = _SIZES  # keys without which the library would take sizes of its own
    understood: frozenset[str] = frozenset()  # keys that the definition reads though its config class lacks them
    irrelevant: frozenset[str] = frozenset()  # besides the bookkeeping
    fixed: Mapping[str, object] = field(default_factory=dict)  # besides those of a plain encoder
    placement: Placement = Placement.FROM_ZERO
    renamed: Mapping[str, str] = field(default_factory=dict)  # old endings of tensor names
    ignorable: tuple[str, ...] = ()  # patterns of tensors, by their names inside the encoder, that it does not have

    @property
    def only_values(self) -> Mapping[str, object]:
        """Keys that may be there with this value only."""
        return {**_PLAIN_ENCODER, **self.fixed}

    @property
    def undeclared(self) -> frozenset[str]:
        """Keys that may be there though the config class does not declare them."""
        return self.understood | self.irrelevant | BOOKKEEPING | self.only_values.keys()


_OLD_NORMS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
_ROBERTA = Family(
    model_type="roberta",
    encoder="roberta",
    head=("classifier",),
    logits="classifier.out_proj",
    pooler=True,
    placement=Placement.AFTER_PADDING,
    renamed=_OLD_NORMS,
    ignorable=("embeddings.position_ids", "pooler.*", "lm_head.*"),
)

FAMILIES = {
    family.model_type: family
    for family in (
        Family(
            model_type="bert",
            encoder="bert",
            head=("bert.pooler", "classifier"),
            pooler=True,
            irrelevant=keys("""
                directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head
                pooler_type
            """),
            renamed=_OLD_NORMS,
            ignorable=("embeddings.position_ids", "pooler.*", "cls.*"),
        ),
        _ROBERTA,
        dataclasses.replace(_ROBERTA, model_type="xlm-roberta"),
        Family(
            model_type="electra",
            encoder="electra",
            head=("classifier",),
            logits="classifier.out_proj",
            renamed=_OLD_NORMS,
            ignorable=("embeddings.position_ids", "discriminator_predictions.*", "generator_*"),
        ),
        Family(
            model_type="distilbert",
            encoder="distilbert",
            head=("pre_classifier", "relu", "classifier"),
            required=keys("vocab_size dim hidden_dim n_layers n_heads max_position_embeddings"),
            irrelevant=keys("tie_weights_"),
            ignorable=("embeddings.position_ids", "vocab_transform.*", "vocab_layer_norm.*", "vocab_projector.*"),
        ),
        dataclasses.replace(
            _ROBERTA,
            model_type="mpnet",
            encoder="mpnet",
            fixed={"pad_token_id": 1},  # which the library takes for granted
            placement=Placement.AFTER_PADDING_BY_DISTANCE,
        ),
        Family(
            model_type="deberta-v2",
            encoder="deberta",
            head=("pooler", "classifier"),
            understood=keys("""
                position_buckets norm_rel_ebd share_att_key attention_head_size embedding_size pooler_hidden_size
            """),
            irrelevant=keys("cls_dropout"),
            fixed={"conv_kernel_size": 0},  # a convolution would mix the tokens of neighbouring segments
            placement=Placement.PAIRS,
            ignorable=("embeddings.position_ids", "lm_predictions.*", "mask_predictions.*", "cls.*"),
        ),
        Family(
            model_type="modernbert",
            encoder="model",
            head=("head", "classifier"),
            token_head=("head", "classifier"),
            understood=keys("global_attn_every_n_layers global_rope_theta local_rope_theta"),
            irrelevant=keys("layer_norm_eps reference_compile repad_logits_with_grad"),
            placement=Placement.SLIDING,
            ignorable=("head.*", "decoder.*"),
        ),
    )
}
