"""What decides the ids of a tokenizer, by name, so that two can be compared. Knows no text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tokenizers import Tokenizer

_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
_IRRELEVANT = {"trim_offsets", "str_rep", "dropout"}  # places only; written by old versions; refused by itself
_VOCABULARY = ("vocab", "merges")
_FREE_TEXT = ("pattern", "content", "prepend")  # of one part of a normaliser: it may mean any string
# What transformers 4 put beside a SentencePiece model's normaliser, where 5 splits at the same places instead.
_SPACES = ({"Regex": " {2,}"}, {"Regex": r"\s{2,}|[\n\r\t]"})


def settings_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """By name what ids depend on: without what cannot change them, and what means the same written the same."""
    content = json.loads(tokenizer.to_str())
    model = content["model"]
    settings = {
        "normalizer": _parts(content["normalizer"], "normalizers"),
        "pre_tokenizer": _parts(content["pre_tokenizer"], "pretokenizers"),
        **{f"model.{key}": _stated(value) for key, value in model.items() if key not in _IRRELEVANT},
    }
    for token in content["added_tokens"]:
        settings[f"added token {token['content']!r}"] = {"id": token["id"], **{flag: token[flag] for flag in _FLAGS}}
    return settings


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """The names of the settings that differ, the vocabulary last."""
    names = [name for name in dict.fromkeys((*ours, *theirs)) if ours.get(name) != theirs.get(name)]
    return sorted(names, key=lambda name: name.removeprefix("model.") in _VOCABULARY)


def described(name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """A difference in words."""
    if name.removeprefix("model.") in _VOCABULARY:
        return name
    return f"{name} ({_short(ours.get(name))} in tokenizer.json, {_short(theirs.get(name))} in AutoTokenizer)"


def means_any_string(settings: Mapping[str, Any], name: str) -> bool:
    """Whether no list of texts can show what the setting does: it replaces or splits at a pattern of its own."""
    parts = settings.get(name)
    if not isinstance(parts, list):
        return False
    return any(_FREE_TEXT[0] in part and part[_FREE_TEXT[0]] not in _SPACES for part in parts)


def literals(settings: Mapping[str, Any]) -> set[str]:
    """Strings that the parts of a normaliser or a pre-tokeniser look for or put in."""
    return {each for name in ("normalizer", "pre_tokenizer") for part in settings[name] for each in _strings(part)}


def telling_pieces(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> set[str]:
    """Pieces of the vocabularies that two models may not make of the same text."""
    both = [_pieces(settings.get("model.vocab")) for settings in (ours, theirs)]
    options = [name for name in differences(ours, theirs) if name.startswith("model.") and name != "model.vocab"]
    return {piece for piece, _ in (both[0] | both[1] if options else both[0] ^ both[1])}


def _pieces(vocabulary: Any) -> set[tuple[str, Any]]:
    listed = vocabulary.items() if isinstance(vocabulary, dict) else vocabulary or ()
    return {(str(piece), value) for piece, value in listed}


def _stated(value: Any) -> Any:
    return None if value is False or value == "" else value


def _parts(component: Any, members: str) -> list[dict[str, Any]]:
    """A sequence of sequences, one after the other."""
    if component is None:
        return []
    if component["type"] == "Sequence":
        return [part for member in component[members] for part in _parts(member, members)]
    part = {key: value for key, value in component.items() if key not in _IRRELEVANT}
    if part["type"] == "BertNormalizer" and part["strip_accents"] is None:
        part["strip_accents"] = part["lowercase"]
    return [part]


def _strings(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key in {*_FREE_TEXT, "String", "Regex", "Literal"}:
                yield from [value] if isinstance(value, str) else _strings(value)


def _short(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ", ".join(_short(each) for each in value)
    if isinstance(value, dict) and "type" in value:
        options = ", ".join(f"{key} {str(each)[:40]}" for key, each in value.items() if key != "type")
        return str(value["type"]) + (f" with {options}" if options else "")
    return "nothing" if value in (None, []) else str(value)[:80]
