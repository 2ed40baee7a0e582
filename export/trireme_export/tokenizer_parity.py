"""Whether tokenizer.json and the library's AutoTokenizer of the same folder split every text alike.

Most of the library's tokenizer classes take little more than the vocabulary and the special tokens from tokenizer.json
and build the rest anew, so AutoTokenizer does not follow a file with settings of its own. Nobody can know here which of
the two the model was trained with, so where they differ it is for the user to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.library_config import library_refusals
from trireme_export.tokenizer_facts import FILE
from trireme_export.tokenizer_probes import every_character, probe_texts
from trireme_export.tokenizer_settings import (
    described,
    differences,
    literals,
    means_any_string,
    settings_of,
    telling_pieces,
)

_SHOWN = 80  # characters of a text, settings of a tokenizer


@dataclass(frozen=True, kw_only=True)
class _Difference:
    text: str
    ours: list[int]
    theirs: list[int]

    def __str__(self) -> str:
        ours, theirs = self.ours, self.theirs
        place = next(at for at in range(len(ours) + 1) if ours[at : at + 1] != theirs[at : at + 1])
        shown = repr(self.text[:_SHOWN]) + (f"... ({len(self.text)} characters)" if len(self.text) > _SHOWN else "")
        return (
            f"{FILE} splits {shown} into {len(ours)} tokens, AutoTokenizer into {len(theirs)}; "
            f"token {place} is {ours[place : place + 1]} here and {theirs[place : place + 1]} there"
        )


def check_same_ids(checkpoint: Checkpoint, tokenizer: Tokenizer, original: Any) -> None:
    """`tokenizer` and `original`, the library's, give every text the same ids, all of type 0.

    Raises:
        CheckpointRefused: a text shows that they do not, or a setting differs of which no text could show it.
    """
    added = {**original.added_tokens_decoder, **tokenizer.get_added_tokens_decoder()}
    backend = getattr(original, "backend_tokenizer", None)  # None: one of the few that are not built on tokenizers
    ours, theirs = settings_of(tokenizer), settings_of(tokenizer if backend is None else backend)
    names = differences(ours, theirs)
    found = _first_difference(checkpoint, tokenizer, original, probe_texts(token.content for token in added.values()))
    if found is None and names:
        told = sorted(literals(ours) | literals(theirs) | telling_pieces(ours, theirs))
        pieces = (each.replace("Ġ", " ").replace("▁", " ") for each in told)
        texts = [f"row {each}oars {each} {each.removeprefix('##')}" for each in pieces]
        found = _first_difference(checkpoint, tokenizer, original, [*texts, *every_character()])
    hidden = [name for name in names if means_any_string(ours, name) or means_any_string(theirs, name)]
    if found is None and not hidden:
        return
    settings = [described(name, ours, theirs) for name in names]
    raise CheckpointRefused(f"{checkpoint.uri}: {_why(found, settings)} {_what_to_do(checkpoint, original)}")


def _first_difference(
    checkpoint: Checkpoint, tokenizer: Tokenizer, original: Any, texts: Sequence[str]
) -> _Difference | None:
    with library_refusals("the tokenizer's files"):
        encoded, own = original(list(texts), verbose=False), tokenizer.encode_batch(list(texts))
    mistyped = next((at for at, types in enumerate(encoded.get("token_type_ids", ())) if any(types)), None)
    if mistyped is not None:
        raise CheckpointRefused(
            f"{checkpoint.uri}: AutoTokenizer gives tokens of {texts[mistyped]!r} another type than 0, which is the "
            "only one that the exported graph knows"
        )
    pairs = zip(texts, own, encoded["input_ids"], strict=True)
    return next(
        (_Difference(text=text, ours=a.ids, theirs=list(b)) for text, a, b in pairs if a.ids != list(b)),
        None,
    )


def _why(found: _Difference | None, settings: Sequence[str]) -> str:
    listed = "; ".join(settings[:3]) + (f" and {len(settings) - 3} more" if len(settings) > 3 else "")
    if found is None:
        return f"{FILE} and AutoTokenizer differ in {listed}, so they may split a text differently."
    return f"{found}." + (f" What differs: {listed}." if settings else "")


def _what_to_do(checkpoint: Checkpoint, original: Any) -> str:
    return (
        f"AutoTokenizer makes a {type(original).__name__} of these files; an entry is served with {FILE}. They must be "
        f"the tokenizer that the model was trained with. If that is {FILE}, set "
        '"tokenizer_class": "PreTrainedTokenizerFast" in tokenizer_config.json, and AutoTokenizer reads it as it is; '
        "if it is what AutoTokenizer makes, save it again with save_pretrained: "
        f"AutoTokenizer.from_pretrained('{checkpoint.folder}').save_pretrained('{checkpoint.folder}')"
    )
