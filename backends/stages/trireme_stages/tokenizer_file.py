"""A `tokenizer.json` and what both stages that tokenise do with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer
from trireme_triton.parameters import InvalidParameter

from trireme_stages.stage import named_file

PART_CHARACTERS = 500_000  # tokenised in about a quarter of a second
CHARACTER_S = 2.5e-6  # five times what that comes to for one


def read_tokenizer(folder: Path, name: str, threads: int) -> tuple[Tokenizer, int]:
    """The tokenizer in the file `name`, without its truncation and padding, and the id that it pads with.

    Raises:
        InvalidParameter: there is no such file, or it holds no tokenizer.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    path = named_file(folder, "tokenizer", name)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise InvalidParameter(f"parameter 'tokenizer': {path} is not a tokenizer: {error}") from error
    pad_id: int = (tokenizer.padding or {}).get("pad_id", 0)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, pad_id


def in_parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in parts of up to PART_CHARACTERS; a longer one is a part of its own."""
    begin = size = 0
    for end, text in enumerate(texts):
        if end > begin and size + len(text) > PART_CHARACTERS:
            yield texts[begin:end]
            begin, size = end, 0
        size += len(text)
    yield texts[begin:]
