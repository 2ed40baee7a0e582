"""Harmless short messages: greetings, answers, numbers, single words, and how harmless prompts begin.

The collections hold hardly a text of fewer than four words that is harmless; a head trained on those alone takes
"hello" for an injection. The phrases are ours.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from trireme_export.catalogue import PACKAGE
from trireme_export.guard_head.corpus import Example, Split

BEGINNINGS: dict[Split, int] = {"train": 1500, "validation": 0, "test": 500}  # of prompts, one to three words
TEST_SHARE = 3  # every third phrase is held out, with all its endings
PHRASES = PACKAGE / "guard_head" / "phrases.txt"  # one a line, in seventeen languages
ENDS = (".", "!", "?", "...", "!!", " 🙂", ",", " :)")
NUMBERS = ("{}", "{}%", "#{}", "{}.", "{} €", "${}", "{} + 1", "-{}", "no. {}")


def remarks(prompts: Sequence[Example], seed: int = 0) -> list[Example]:
    """Short harmless messages of each split; beginnings come from that split's harmless `prompts`."""
    chance = random.Random(seed)
    made = [*_spoken(chance), *_numbers(chance), *_beginnings(prompts, chance)]
    held_out = {text.casefold() for text, split in made if split == "test"}
    kept = {text: split for text, split in made if split == "test" or text.casefold() not in held_out}
    return [Example(text=text, label=0, split=split, kind="remark") for text, split in kept.items()]


def _spoken(chance: random.Random) -> Iterator[tuple[str, Split]]:
    every = PHRASES.read_text(encoding="utf-8").splitlines()
    chance.shuffle(every)
    for place, phrase in enumerate(every):
        split: Split = "train" if place % TEST_SHARE else "test"
        for end in ("", *chance.sample(ENDS, 3)):
            yield phrase + end, split


def _numbers(chance: random.Random) -> Iterator[tuple[str, Split]]:
    for place in range(300):
        split: Split = "train" if place % TEST_SHARE else "test"
        digits = chance.randrange(10 ** chance.randint(1, 9))
        yield chance.choice(NUMBERS).format(digits), split


def _beginnings(prompts: Sequence[Example], chance: random.Random) -> Iterator[tuple[str, Split]]:
    for split, count in BEGINNINGS.items():
        harmless = [each.text.split() for each in prompts if each.split == split and not each.label]
        for words in chance.sample(harmless, min(count, len(harmless))):
            yield " ".join(words[: chance.randint(1, 3)]), split
