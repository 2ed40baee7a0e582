"""The tokenizer, special tokens and chat template inside a GGUF file, as a tokenizer.json.

Two kinds exist: byte-level BPE ("gpt2"), whose word pattern the file only names, and SentencePiece BPE ("llama"),
whose merges follow from the pieces' scores.
"""

from __future__ import annotations

from enum import IntEnum

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from trireme_llm.errors import UnsupportedCheckpoint
from trireme_llm.gguf_file import GgufFile

PREFIX = "tokenizer.ggml."
SPACE = "\u2581"  # SentencePiece's visible space


class TokenType(IntEnum):
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def _words(digits: str) -> str:
    """The word pattern of GPT-4's tokenizer and its descendants, which differ in how many digits go together."""
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


PATTERNS = {"qwen2": _words(r"\p{N}"), "llama-bpe": _words(r"\p{N}{1,3}")}
WITH_NFC = {"qwen2"}
WHOLE_WORDS_FIRST = {"llama-bpe"}  # a word that is a token is not cut, whatever the merges say
GPT2_PATTERN = {"gpt-2", "smollm", "default"}  # "default": files older than the key


def read_tokenizer(file: GgufFile) -> Tokenizer:
    """Raises UnsupportedCheckpoint, naming the kind of tokenizer."""
    kind = file.string(f"{PREFIX}model")
    if kind == "gpt2":
        tokenizer = _byte_level(file)
    elif kind == "llama":
        tokenizer = _sentencepiece(file)
    else:
        raise UnsupportedCheckpoint(f"GGUF tokenizer {kind!r} is not understood; known: gpt2, llama")
    _add_tokens(tokenizer, file)
    return tokenizer


def end_ids(file: GgufFile) -> frozenset[int]:
    """Ids that end a sequence or a turn."""
    keys = [f"{PREFIX}{name}_token_id" for name in ("eos", "eot", "eom")]
    return frozenset(file.integer(key) for key in keys if key in file.values)


def chat_template(file: GgufFile) -> str | None:
    key = "tokenizer.chat_template"
    return file.string(key) if key in file.values else None


def _vocabulary(file: GgufFile) -> tuple[list[str], list[TokenType]]:
    tokens = file.strings(f"{PREFIX}tokens")
    return tokens, [TokenType(int(kind)) for kind in file.numbers(f"{PREFIX}token_type")]


def _byte_level(file: GgufFile) -> Tokenizer:
    tokens, types = _vocabulary(file)
    name = file.string(f"{PREFIX}pre") if f"{PREFIX}pre" in file.values else "default"
    if name not in PATTERNS and name not in GPT2_PATTERN:
        known = ", ".join([*PATTERNS, *sorted(GPT2_PATTERN)])
        raise UnsupportedCheckpoint(f"GGUF word pattern {name!r} is not understood; known: {known}")
    vocabulary = {t: i for i, (t, kind) in enumerate(zip(tokens, types, strict=True)) if kind is not TokenType.UNUSED}
    merges = [_pair(merge) for merge in file.strings(f"{PREFIX}merges")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=name in WHOLE_WORDS_FIRST))
    if name in WITH_NFC:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = _byte_level_words(name)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = _post_processor(file, tokens)
    return tokenizer


def _byte_level_words(name: str) -> pre_tokenizers.PreTokenizer:
    if name in PATTERNS:
        split = pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
    return words


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right


def _sentencepiece(file: GgufFile) -> Tokenizer:
    tokens, types = _vocabulary(file)
    vocabulary = {token: index for index, token in enumerate(tokens)}
    unknown = tokens[file.integer(f"{PREFIX}unknown_token_id")] if f"{PREFIX}unknown_token_id" in file.values else None
    merges = _merges_from_scores(tokens, types, file.numbers(f"{PREFIX}scores"))
    model = models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    begins_with_space = bool(file.values.get(f"{PREFIX}add_space_prefix", True))
    spaces = normalizers.Replace(" ", SPACE)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces]) if begins_with_space else spaces
    strip = [decoders.Strip(" ", 1, 0)] if begins_with_space else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    tokenizer.post_processor = _post_processor(file, tokens)
    return tokenizer


def _merges_from_scores(tokens: list[str], types: list[TokenType], scores: list[float]) -> list[tuple[str, str]]:
    """SentencePiece joins the two neighbours whose union scores best: so every way to cut a piece, best piece first."""
    known = {token for token, kind in zip(tokens, types, strict=True) if kind is TokenType.NORMAL}
    best_first = sorted((i for i, token in enumerate(tokens) if token in known), key=lambda i: -scores[i])
    return [
        (token[:cut], token[cut:])
        for token in (tokens[index] for index in best_first)
        for cut in range(1, len(token))
        if token[:cut] in known and token[cut:] in known
    ]


def _add_tokens(tokenizer: Tokenizer, file: GgufFile) -> None:
    """Control tokens are invisible in text; user-defined ones are ordinary text that is never cut."""
    tokens, types = _vocabulary(file)
    special = {TokenType.CONTROL: True, TokenType.UNKNOWN: True, TokenType.USER_DEFINED: False}
    tokenizer.add_tokens(
        [
            AddedToken(token, special=special[kind], normalized=False)
            for token, kind in zip(tokens, types, strict=True)
            if kind in special
        ]
    )


def _post_processor(file: GgufFile, tokens: list[str]) -> processors.PostProcessor:
    if not file.values.get(f"{PREFIX}add_bos_token", file.string(f"{PREFIX}model") == "llama"):
        return processors.ByteLevel(trim_offsets=False)
    index = file.integer(f"{PREFIX}bos_token_id")
    return processors.TemplateProcessing(single=f"{tokens[index]} $A", special_tokens=[(tokens[index], index)])
