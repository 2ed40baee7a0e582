"""The stage `tokenize`: texts become token ids and a mask of segment numbers, one row per text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from tokenizers import Encoding, Tokenizer
from trireme_triton.parameters import InvalidParameter, parameter
from trireme_triton.tensors import Answer, Array, Inputs, InvalidRequest

from trireme_stages.rows import padded_rows
from trireme_stages.stage import Dims, Model, Signature, answer_parsed
from trireme_stages.texts import read_texts
from trireme_stages.token_spans import NOWHERE, WIDTH, row_spans
from trireme_stages.tokenizer_file import CHARACTER_S, in_parts, read_tokenizer
from trireme_stages.windows import WindowPlan

SPAN_CHARACTER_S = 5e-5  # with token_spans, of text whose characters are several tokens: five times what one takes


@dataclass(frozen=True, kw_only=True)
class TokenizeParameters:
    """Lengths are in tokens; `max_length` counts the special tokens of a window, `window_overlap` does not.

    `token_spans` adds the output of that name: where in the text each token stands (see `token_spans`).
    """

    tokenizer: str = "tokenizer.json"
    max_length: int = parameter(minimum=1)
    long_text: Literal["windows", "refuse"] = "refuse"
    window_overlap: int = parameter(0, minimum=0)
    max_windows: int = parameter(16, minimum=1)
    pad_to_multiple_of: int = parameter(1, minimum=1)
    max_bytes: int = parameter(250_000, minimum=1)  # of one text: bounds the time that one request can take
    token_spans: bool = False
    threads: int = parameter(1, key="trireme.threads", minimum=1)

    def signature(self) -> Signature:
        """A row's length is that of the request's longest text, rounded up to `pad_to_multiple_of`."""
        spans: dict[str, tuple[str, Dims]] = {"token_spans": ("TYPE_INT32", (-1, WIDTH))} if self.token_spans else {}
        return Signature(
            inputs={"text": ("TYPE_STRING", (1,))},
            outputs={
                "input_ids": ("TYPE_INT64", (-1,)),
                "attention_mask": ("TYPE_INT64", (-1,)),
                "windows": ("TYPE_INT32", (1,)),
                **spans,
            },
        )


class Tokenize:
    """Texts in, rows of token ids out; a text that fits no window is split or refused, never cut."""

    Parameters = TokenizeParameters

    def __init__(self, parameters: TokenizeParameters, model: Model) -> None:
        self._parameters = parameters
        self._progress = model.progress
        self._tokenizer, self._pad_id = read_tokenizer(model.folder, parameters.tokenizer, parameters.threads)
        self._windows = _window_plan(parameters, self._tokenizer)

    def answer(self, batch: Sequence[Inputs]) -> list[Answer]:
        """Every text of every request is tokenised together."""
        return answer_parsed(batch, self._texts, self._tokenize)

    def _texts(self, inputs: Inputs) -> list[str]:
        return read_texts("text", inputs, self._parameters.max_bytes)

    def _tokenize(self, requests: Sequence[list[str]]) -> Iterator[Answer]:
        encodings = self._encodings(list(chain.from_iterable(requests)))
        for texts in requests:
            own = [next(encodings) for _ in texts]
            try:
                rows = [self._split(item, encoding.ids) for item, encoding in enumerate(own)]
            except InvalidRequest as refusal:
                yield refusal
                continue
            outputs = padded_rows(rows, self._pad_id, self._parameters.pad_to_multiple_of)
            if self._parameters.token_spans:
                outputs["token_spans"] = self._spans(texts, own, length=outputs["input_ids"].shape[1])
            yield outputs

    def _encodings(self, texts: Sequence[str]) -> Iterator[Encoding]:
        """In one call of the tokenizer, unless that would take long."""
        with_spans = self._parameters.token_spans
        encode = self._tokenizer.encode_batch if with_spans else self._tokenizer.encode_batch_fast
        for part in in_parts(texts):
            self._progress.allow(sum(map(len, part)) * (SPAN_CHARACTER_S if with_spans else CHARACTER_S))
            yield from encode(part)
            self._progress.beat()

    def _split(self, item: int, ids: list[int]) -> list[list[int]]:
        """The windows of one text, whose `ids` include special tokens."""
        count = self._windows.count(len(ids))
        if count > self._max_windows:
            raise InvalidRequest(f"input 'text', item {item}: {self._too_long(len(ids), count)}", reason="too_long")
        if not ids:
            raise InvalidRequest(f"input 'text', item {item}: the text has no tokens", reason="empty")
        return self._windows.split(ids)

    @property
    def _max_windows(self) -> int:
        return self._parameters.max_windows if self._parameters.long_text == "windows" else 1

    def _too_long(self, length: int, count: int) -> str:
        tokens = f"the text has {length} tokens with special tokens"
        if self._max_windows == 1:
            return f"{tokens}; this model takes at most {self._windows.max_length}"
        size = f"of {self._windows.max_length} tokens overlapping by {self._windows.overlap}"
        return f"{tokens}, which is {count} windows {size}; this model takes at most {self._max_windows} windows"

    def _spans(self, texts: Sequence[str], encodings: Sequence[Encoding], length: int) -> Array:
        """(texts, length, 3)."""
        padded = np.full((len(texts), length, WIDTH), NOWHERE, np.int32)
        for row, text, encoding in zip(padded, texts, encodings, strict=True):
            spans = row_spans(text, encoding, self._windows)
            row[: len(spans)] = spans
        return padded


def _window_plan(parameters: TokenizeParameters, tokenizer: Tokenizer) -> WindowPlan:
    prefix, suffix = _special_tokens(tokenizer)
    plan = WindowPlan(max_length=parameters.max_length, overlap=parameters.window_overlap, prefix=prefix, suffix=suffix)
    if plan.content <= plan.overlap:
        special = len(prefix) + len(suffix)
        raise InvalidParameter(
            f"parameter 'max_length' is {plan.max_length}; it must be more than "
            f"{special} special tokens and a window_overlap of {plan.overlap} together"
        )
    return plan


def _special_tokens(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What this tokenizer puts before and after a text, seen on a probe rather than known by its family."""
    probe, plain = tokenizer.encode("a"), tokenizer.encode("a", add_special_tokens=False)
    begin = next((at for at, special in enumerate(probe.special_tokens_mask) if not special), len(probe.ids))
    end = begin + len(plain.ids)
    if not plain.ids or probe.ids[begin:end] != plain.ids:
        raise InvalidParameter("parameter 'tokenizer': its post-processor does not wrap a text in fixed special tokens")
    return tuple(probe.ids[:begin]), tuple(probe.ids[end:])
