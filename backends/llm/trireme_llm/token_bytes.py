"""The bytes of text that each token stands for."""

from __future__ import annotations

from tokenizers import Tokenizer

SPACE = "\u2581"


def token_bytes(tokenizer: Tokenizer, size: int) -> list[bytes]:
    """By id. Special tokens have none: they are not part of the text."""
    of_text = _byte_level_bytes if "ByteLevel" in repr(tokenizer.decoder) else _sentencepiece_bytes
    table = [b""] * size
    for token, index in tokenizer.get_vocab(with_added_tokens=False).items():
        if index < size:
            table[index] = of_text(token)
    for index, added in tokenizer.get_added_tokens_decoder().items():
        if index < size:
            table[index] = b"" if added.special else added.content.encode()
    return table


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes: printable ones stand for themselves, the others for 256 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


ALPHABET = _byte_alphabet()


def _byte_level_bytes(token: str) -> bytes:
    if not all(letter in ALPHABET for letter in token):
        return token.encode()
    return bytes(ALPHABET[letter] for letter in token)


def _sentencepiece_bytes(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace(SPACE, " ").encode()
