"""A text longer than the model's window is split into overlapping windows. Knows token ids, no tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, kw_only=True)
class WindowPlan:
    """How long texts are split: all numbers are tokens.

    Windows start every `content - overlap` tokens and end with the first that reaches the text's end, which is how
    the `tokenizers` library cuts a text that overflows its truncation with a stride.
    """

    max_length: int  # of a window with its special tokens
    overlap: int  # shared by neighbouring windows, without special tokens
    prefix: tuple[int, ...] = ()  # special tokens before each window's content
    suffix: tuple[int, ...] = ()  # and after it

    @property
    def content(self) -> int:
        """Tokens of the text in one window."""
        return self.max_length - len(self.prefix) - len(self.suffix)

    def count(self, length: int) -> int:
        """How many windows a text of `length` tokens with special tokens takes."""
        beyond_the_first = length - self.max_length
        return 1 + max(0, -(-beyond_the_first // (self.content - self.overlap)))

    def split(self, ids: list[int]) -> list[list[int]]:
        """The windows of one text, each with special tokens. `ids` are the whole text's, with special tokens."""
        if len(ids) <= self.max_length:
            return [ids]
        text = ids[len(self.prefix) : len(ids) - len(self.suffix)]
        contents = (text[place.start : place.stop] for place in self.contents(len(text)))
        return [[*self.prefix, *content, *self.suffix] for content in contents]

    def contents(self, tokens: int) -> list[range]:
        """Which of a text's `tokens`, counted without special ones, are in each window."""
        step = self.content - self.overlap
        starts = range(0, self.count(tokens + self.max_length - self.content) * step, step)
        return [range(start, min(start + self.content, tokens)) for start in starts]

    def answers(self, tokens: int) -> list[range]:
        """The same tokens shared out: each is in the window where most of the text around it can be seen.

        That is the earlier window for the first half of an overlap, and the later one for the second.
        """
        contents = self.contents(tokens)
        cuts = [0, *(later.start + (self.overlap + 1) // 2 for later in contents[1:]), tokens]
        return [range(begin, end) for begin, end in pairwise(cuts)]
