"""Texts on which two tokenizers that differ in a setting give different ids. Data, and strings drawn from it."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain

from trireme_export.text_samples import PARITY_TEXTS

RANDOM_TEXTS = 400
_SEED = 1717
_WORDS = "the oars of a trireme rowed at dawn Don't can't won 't U.S.A 3,141.59 mother-in-law x_y @you #row"
_MARKED = "naïve café résumé Ἀθῆναι ộ ñ Å ё й한국 가각 שָׁלוֹם مُحَمَّد हिन्दी ไทย が ǅ"
_SPACES = " |  |   |\t|\n|\r\n|\t\t|\u00a0|\u2009|\u3000|\u2028|\x0b|\x0c|\x85| \n "
_ALPHABETS = (  # first and last character of each
    *((0x20, 0x7E), (0x00, 0x1F), (0x7F, 0xA0), (0xA1, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x45F)),
    *((0x591, 0x5EA), (0x610, 0x669), (0x900, 0x963), (0xE01, 0xE4E), (0x1100, 0x11FF), (0x1E00, 0x1EFF)),
    *((0x2000, 0x206F), (0x2070, 0x218B), (0x2460, 0x24FF), (0x3000, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xACFF)),
    *((0xE000, 0xE00F), (0xF900, 0xF97F), (0xFB00, 0xFB4F), (0xFE00, 0xFE0F), (0xFE70, 0xFEFF), (0xFF00, 0xFFEF)),
    *((0x10330, 0x1034A), (0x1D400, 0x1D433), (0x1F1E6, 0x1F1FF), (0x1F300, 0x1F64F), (0x20000, 0x2001F)),
)
_SINGULAR = (
    "İstanbul ıI ß ẞ ǅ Ǆ ǆ Σίσυφος ΟΔΟΣ",  # whose lower case is another length, or depends on the place
    "ﬁsh ﬀ ① ½ ² ™ Ａｂｃ １２３ ㎏ ﷺ ㍿ ｶﾞ",  # compatibility characters
    "a\u0300\u0316 a\u0316\u0300 q\u0307\u0323 \u0301 e\u0301\u0301",  # marks in either order, alone, twice
    "zero\u200bwidth \u200d join\u200cer \ufeff bom soft\u00adhyphen \u2060",
    "👩‍👩‍👧‍👦 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f 🇩🇪🇫🇷 ❤️ ❤ 1️⃣ 🚣🏽‍♀️",
    "oars三层ship船a 2024年12月 カタカナひらがな漢字 한글and漢字",
    "0 1 12 123 1234 12345 1e-3 1,234.5 ٣٤ ४५ 007",
    "\x00\x01\x07\x08\x1b[0m\x7f \x80\x9f \ufffd \ufffe",
    "...!!! --- ___ ((())) ,;: ''\"\" ` ´ “q” «q» – — …",
    " leading", "trailing ", "  both  ", "\n", " ", "\t\tx\n\n\ny \r z", "a  b   c    d",
)  # fmt: skip
_LENGTHS = (
    *range(1, 20),
    31,
    32,
    33,
    49,
    50,
    51,
    63,
    64,
    65,
    *range(97, 104),
    *range(110, 301, 10),
    127,
    128,
    129,
    255,
)
_ALIKE = (
    (0x3400, 0x4DC0),
    (0x4E00, 0xA000),
    (0xAC00, 0xD7A4),
    (0x17000, 0x18D00),
    (0x20000, 0x2F800),
    (0x30000, 0x33480),
)
_TOKENS = 100  # in so many of the added tokens, and in one text each of the others


def probe_texts(added_tokens: Iterable[str]) -> list[str]:
    """The same texts each time: of every script and kind of character, around every added token, and at random."""
    tokens, marked = list(dict.fromkeys(added_tokens)), _MARKED.split()
    around = chain.from_iterable(_around(token) for token in tokens[:_TOKENS])
    texts = [*PARITY_TEXTS, *(f"row {token}oars" for token in tokens), *around, *_SINGULAR, *marked]
    texts += [unicodedata.normalize(form, text) for text in (*_SINGULAR, *marked) for form in ("NFD", "NFC")]
    texts += [f"{word}{space}{word}{space}" for word in ("oars", "Row", "é", "三") for space in _SPACES.split("|")]
    texts += [case for text in (*marked, *_WORDS.split()) for case in (text.upper(), text.title())]
    return list(dict.fromkeys([*texts, *_long_words(), *_random_texts(tokens)]))


def every_character() -> list[str]:
    """Each beside letters and beside spaces; of the great scripts whose characters are all alike, one in sixteen."""
    codes = set(range(0x33480)).union(range(0xE0000, 0xE0200)) - set(range(0xD800, 0xE000)) - set(range(0xE010, 0xF900))
    codes -= {code for first, last in _ALIKE for code in range(first, last) if code % 16}
    characters = [chr(code) for code in sorted(codes) if unicodedata.category(chr(code)) != "Cn"]
    return [
        "".join(f"a{each}b {each} {each}" for each in characters[at : at + 8]) for at in range(0, len(characters), 8)
    ]


def _around(token: str) -> Iterator[str]:
    """`token` with and without spaces, inside words, several times, and in other cases."""
    yield from (token, f" {token} ", f"a {token} b", f"a{token}b", f"a{token} b", f"{token}{token}", f"{token} {token}")
    yield from (f"a  {token}  b", f"a\t{token}\nb", f"({token})", f"e\u0301{token}é", f"三{token}三")
    yield from (f"a {case} b" for case in (token.lower(), token.upper(), token.title()))
    yield from (f"a {unicodedata.normalize(form, token)} b" for form in ("NFD", "NFKC"))


def _long_words() -> Iterator[str]:
    """Of every length at which a tokenizer may give up a word."""
    for length in _LENGTHS:
        yield "oars"[: length % 4] + "oars" * (length // 4)
        yield f"row {'z' * length}, {'é' * length}"
    yield from ("z" * 1000, "zZ9" * 400, "三" * 150, "é" * 250, "!" * 300, "👩‍👧" * 60)


def _random_texts(tokens: list[str]) -> Iterator[str]:
    draw = random.Random(_SEED)
    for _ in range(RANDOM_TEXTS):
        yield "".join(_random_part(draw, tokens) for _ in range(draw.randint(1, 8)))


def _random_part(draw: random.Random, tokens: list[str]) -> str:
    kind, spaces = draw.randrange(8), _SPACES.split("|")
    if kind < 3:
        return draw.choice(_WORDS.split()) + draw.choice(("", *spaces))
    if kind == 3:
        return draw.choice(spaces)
    if kind == 4:
        return draw.choice([*tokens, *_MARKED.split()])
    return "".join(chr(draw.randint(*draw.choice(_ALPHABETS))) for _ in range(draw.randint(1, 6)))
