"""The tokenizer that an entry is served with: `tokenizer.json`, once it is known to do what the library does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.families import Placement
from trireme_export.intake import family_of
from trireme_export.tokenizer_facts import FILE, model_max_length
from trireme_export.tokenizer_parity import check_same_ids

# Keys of a model in tokenizer.json that leave the split to chance, by what turns that off.
_RANDOM = {"dropout": "null or 0", "alpha": "null", "nbest_size": "null"}


def read_tokenizer(checkpoint: Checkpoint, config: Mapping[str, Any]) -> Tokenizer:
    """The checkpoint's own tokenizer, without the truncation and padding that it may carry.

    Raises:
        CheckpointRefused: it is damaged or not there, splits a text otherwise each time, or gives ids that the encoder
            does not have.
    """
    if FILE not in checkpoint.files:
        folder = checkpoint.folder
        raise CheckpointRefused(
            f"{checkpoint.uri}: there is no {FILE}, and without it no text is split as the model learned it. "
            'Make it with: python -c "from transformers import AutoTokenizer; '
            f"AutoTokenizer.from_pretrained('{folder}').save_pretrained('{folder}')\""
        )
    try:
        tokenizer = Tokenizer.from_file(str(checkpoint.path(FILE)))
    except Exception as error:  # the library raises nothing narrower
        raise CheckpointRefused(f"{checkpoint.uri}: {FILE} is damaged: {error}") from error
    _check_random(checkpoint, tokenizer)
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values())
    if largest >= config["vocab_size"]:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {FILE} has the id {largest}; the encoder's vocabulary has {config['vocab_size']}. "
            "It is another model's: take the one that this model was trained with"
        )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _check_random(checkpoint: Checkpoint, tokenizer: Tokenizer) -> None:
    """What splits at random serves in training alone; a server has to give a text the same answer each time."""
    for key, never in _RANDOM.items():
        value = getattr(tokenizer.model, key, None)
        if value:
            raise CheckpointRefused(
                f"{checkpoint.uri}: {FILE}: model.{key} is {value!r}: the same text is split otherwise each time, and "
                f"its answers are as random. Set it to {never}: it is meant for training alone"
            )


def check_against_library(checkpoint: Checkpoint, tokenizer: Tokenizer, config: Mapping[str, Any]) -> None:
    """`tokenizer` gives the ids that the library's AutoTokenizer gives for this folder.

    Raises:
        CheckpointRefused: they differ for a text, or the special tokens are not those that the model was trained with.
    """
    original = library_tokenizer(checkpoint)
    check_same_ids(checkpoint, tokenizer, original)
    _check_special_tokens(checkpoint, tokenizer, original, config)


def _check_special_tokens(
    checkpoint: Checkpoint, tokenizer: Tokenizer, original: Any, config: Mapping[str, Any]
) -> None:
    ids = tokenizer.encode("").ids
    named = [original.cls_token_id, original.sep_token_id]
    if ids != named:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {FILE} puts the tokens {ids} around a text; needed is the classification token "
            f"{original.cls_token!r} before it and {original.sep_token!r} after it, which have the ids {named}. "
            "It is another model's, or lacks its post-processor"
        )
    if "tokenizer_class" in config and family_of(config).placement is Placement.FROM_ZERO:
        return  # it says that it has another family's tokenizer, and nothing but the tokenizer looks at these ids
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"):
        expected, given = config.get(name), getattr(original, name)
        if expected is not None and given is not None and expected != given:
            raise CheckpointRefused(
                f"{checkpoint.uri}: {name} is {expected} in config.json and {given} in the tokenizer's files. "
                "The tokenizer is another model's: take the one that this model was trained with. "
                "If it is certain that this is the one, correct config.json"
            )


def library_tokenizer(checkpoint: Checkpoint) -> Any:
    """The library's AutoTokenizer of a folder.

    Raises:
        CheckpointRefused: it cannot read the files.
    """
    from transformers import AutoTokenizer

    model_max_length(checkpoint)  # the library compares it with numbers
    try:
        return AutoTokenizer.from_pretrained(checkpoint.folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # the library raises whatever the files make it do
        text = " ".join(str(error).split())
        raise CheckpointRefused(f"{checkpoint.uri}: AutoTokenizer cannot read the tokenizer's files: {text}") from error
