"""The tokenizer of a cross-encoder, once it is known to lay two texts side by side as the library does."""

from __future__ import annotations

from tokenizers import Tokenizer

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.text_samples import BENIGN, EMOJI, EMPTY, PARITY_TEXTS
from trireme_export.text_tokenizer import library_tokenizer
from trireme_export.tokenizer_facts import FILE

PAIRS = tuple((query, text) for query in (BENIGN, EMOJI, EMPTY) for text in PARITY_TEXTS)


def uses_token_types(checkpoint: Checkpoint, tokenizer: Tokenizer) -> bool:
    """Whether the library tells the model which of two texts a token is of.

    Raises:
        CheckpointRefused: `tokenizer` gives other ids, or other types, than the library's AutoTokenizer.
    """
    if not tokenizer.encode("", "").ids:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {FILE} puts no special token around or between two texts, so they would be read as "
            "one. It lacks its post-processor: take the one that this model was trained with"
        )
    original = library_tokenizer(checkpoint)
    given = False
    for query, text in PAIRS:
        ours = tokenizer.encode(query, text)
        theirs = original([(query, text)], verbose=False)  # in a list: alone, it drops an empty text
        (ids,) = theirs["input_ids"]
        (types,) = theirs.get("token_type_ids", [[0] * len(ids)])
        if ours.ids != list(ids) or (any(types) and ours.type_ids != list(types)):
            raise CheckpointRefused(
                f"{checkpoint.uri}: {FILE} lays {query!r} and {text!r} side by side otherwise than AutoTokenizer. "
                "The files of the tokenizer contradict each other: save it again with save_pretrained"
            )
        given = given or any(types)
    return given
