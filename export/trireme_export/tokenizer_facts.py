"""What the files of a checkpoint say of its tokenizer. Loads no tokenizer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.gguf_header import GgufHeader

FILE = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
MIN_WINDOW = 8  # tokens, of which two or more are special
_OTHER_FILES = {"tokenizer.model": "SentencePiece", "spiece.model": "SentencePiece", "vocab.txt": "vocabulary file"}


@dataclass(frozen=True, kw_only=True)
class TokenizerFacts:
    kind: str  # the algorithm, where it is known
    file: str
    vocabulary: int | None = None  # tokens, with added ones; None: the file does not say
    largest_id: int | None = None
    model_vocabulary: int | None = None  # ids that the model has an embedding for; None: its config does not say

    @property
    def exceeds_model(self) -> bool | None:
        """Whether a text may give an id that the model does not have; None: not known."""
        if self.largest_id is None or self.model_vocabulary is None:
            return None
        return self.largest_id >= self.model_vocabulary


def tokenizer_facts(checkpoint: Checkpoint, config: Mapping[str, Any]) -> TokenizerFacts | None:
    """None: there is no tokenizer.

    Raises:
        CheckpointRefused: tokenizer.json is damaged.
    """
    if FILE in checkpoint.files:
        return _from_json(checkpoint, _whole(config.get("vocab_size")))
    file = next((name for name in _OTHER_FILES if name in checkpoint.files), None)
    return None if file is None else TokenizerFacts(kind=_OTHER_FILES[file], file=file)


def gguf_tokenizer_facts(header: GgufHeader, file: str) -> TokenizerFacts | None:
    """The tokenizer inside a GGUF file; None: there is none."""
    kind, tokens = (header.metadata.get(f"tokenizer.ggml.{key}") for key in ("model", "tokens"))
    if not isinstance(kind, str) or not isinstance(tokens, list):
        return None
    embeddings = [tensor.shape for tensor in header.tensors if tensor.name == "token_embd.weight" and tensor.shape]
    return TokenizerFacts(
        kind=kind,
        file=file,
        vocabulary=len(tokens),
        largest_id=len(tokens) - 1,
        model_vocabulary=embeddings[0][0] if embeddings else None,
    )


def model_max_length(checkpoint: Checkpoint) -> int | None:
    """How many tokens the tokenizer's files allow; the library writes thirty digits where nobody has said it.

    Raises:
        CheckpointRefused: it is no number of tokens.
    """
    if TOKENIZER_CONFIG not in checkpoint.files:
        return None
    limit = checkpoint.read_object(TOKENIZER_CONFIG).get("model_max_length")
    if limit is not None and (type(limit) not in {int, float} or not MIN_WINDOW <= limit < math.inf):
        raise CheckpointRefused(
            f"{checkpoint.uri}: {TOKENIZER_CONFIG}: model_max_length is {limit!r}; it must be a number of tokens "
            f"from {MIN_WINDOW}"
        )
    return None if limit is None else int(limit)


def _from_json(checkpoint: Checkpoint, model_vocabulary: int | None) -> TokenizerFacts:
    match checkpoint.read_json(FILE):
        case {"model": {"vocab": dict() | list() as vocabulary, **model}, "added_tokens": list(added)}:
            pass
        case _:
            raise CheckpointRefused(f"{checkpoint.uri}: {FILE} has no vocabulary or no added_tokens")
    ids = set(range(len(vocabulary))) if isinstance(vocabulary, list) else set(_ids(vocabulary.values()))
    ids |= set(_ids(token.get("id") for token in added if isinstance(token, dict)))
    return TokenizerFacts(
        kind=str(model.get("type", "unknown")),
        file=FILE,
        vocabulary=len(ids),
        largest_id=max(ids, default=None),
        model_vocabulary=model_vocabulary,
    )


def _ids(values: Iterable[object]) -> list[int]:
    return [value for value in values if isinstance(value, int)]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
