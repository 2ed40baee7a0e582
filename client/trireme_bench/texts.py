"""Texts of an exact number of tokens, always the same ones. Knows nothing of servers.

Every word is one token of BERT's uncased vocabulary, which MiniLM and most English sentence encoders use, and such a
tokenizer adds two special tokens. `check_counts` verifies that for a given `tokenizer.json`.
"""

import math
import random
from dataclasses import dataclass
from pathlib import Path

WORDS = Path(__file__).with_name("words.txt").read_text().split()
SPECIAL_TOKENS = 2
SEED = 7


@dataclass(frozen=True)
class Mix:
    """Lengths in tokens of texts as people send them: lognormal, a few of them very long."""

    median: float = 30
    mean: float = 50
    longest: int = 512

    def lengths(self, count: int) -> list[int]:
        """For a lognormal distribution the mean is the median times exp(sigma**2 / 2)."""
        rng = random.Random(SEED)
        sigma = math.sqrt(2 * math.log(self.mean / self.median))
        drawn = (round(rng.lognormvariate(math.log(self.median), sigma)) for _ in range(count))
        return [min(max(length, SPECIAL_TOKENS + 1), self.longest) for length in drawn]


def lengths(workload: str, count: int) -> list[int]:
    """Tokens of each text: `workload` is a number or `mix`. Raises `ValueError`."""
    if workload == "mix":
        return Mix().lengths(count)
    if not workload.isdecimal() or int(workload) <= SPECIAL_TOKENS:
        raise ValueError(f"unknown workload {workload!r}; it can be mix or a number of tokens above {SPECIAL_TOKENS}")
    return [int(workload)] * count


def texts(workload: str, count: int) -> list[str]:
    """As many different texts, with the same lengths in tokens and the same words every time."""
    rng = random.Random(SEED)
    return [" ".join(rng.choices(WORDS, k=length - SPECIAL_TOKENS)) for length in lengths(workload, count)]


def check_counts(tokenizer_file: Path, workload: str, count: int) -> None:
    """Raises `ValueError` if this tokenizer (a Hugging Face `tokenizer.json`) counts otherwise."""
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError:
        raise ValueError("a tokenizer can only be checked where the package `tokenizers` is installed") from None

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    for text, length in zip(texts(workload, count), lengths(workload, count), strict=True):
        found = len(tokenizer.encode(text).ids)
        if found != length:
            raise ValueError(f"a text made for {length} tokens has {found} with {tokenizer_file}: {text[:80]!r}")
