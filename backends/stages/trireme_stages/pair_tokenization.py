"""The stage `tokenize_pairs`: a query and a text become one row of token ids, as a cross-encoder reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from tokenizers import Tokenizer
from trireme_triton.parameters import InvalidParameter, parameter
from trireme_triton.tensors import Answer, Inputs, InvalidRequest

from trireme_stages.rows import padded, padded_rows
from trireme_stages.stage import Dims, Model, Signature, answer_parsed
from trireme_stages.texts import read_texts
from trireme_stages.tokenizer_file import CHARACTER_S, in_parts, read_tokenizer
from trireme_stages.windows import WindowPlan

Pair = tuple[str, str]  # query and text


@dataclass(frozen=True, kw_only=True)
class TokenizePairsParameters:
    """Lengths are in tokens; `max_length` counts all tokens of a window, `window_overlap` those of the text alone.

    A query may take half of the room in a window. `token_types` adds the output `token_type_ids`.
    """

    tokenizer: str = "tokenizer.json"
    max_length: int = parameter(minimum=1)
    window_overlap: int = parameter(0, minimum=0)
    max_windows: int = parameter(16, minimum=1)
    pad_to_multiple_of: int = parameter(1, minimum=1)
    max_bytes: int = parameter(250_000, minimum=1)  # of a query or a text
    token_types: bool = False
    threads: int = parameter(1, key="trireme.threads", minimum=1)

    def signature(self) -> Signature:
        """A row's length is that of the request's longest pair, rounded up to `pad_to_multiple_of`."""
        types: dict[str, tuple[str, Dims]] = {"token_type_ids": ("TYPE_INT64", (-1,))} if self.token_types else {}
        return Signature(
            inputs={"query": ("TYPE_STRING", (1,)), "text": ("TYPE_STRING", (1,))},
            outputs={
                "input_ids": ("TYPE_INT64", (-1,)),
                "attention_mask": ("TYPE_INT64", (-1,)),
                **types,
                "windows": ("TYPE_INT32", (1,)),
            },
        )


class _Part(NamedTuple):
    """Tokens of a pair that stand together."""

    ids: tuple[int, ...]
    types: tuple[int, ...]


@dataclass(frozen=True)
class _Template:
    """The special tokens of a pair, and which type its tokens are of."""

    before: _Part
    between: _Part
    after: _Part
    query_type: int
    text_type: int

    @property
    def special_tokens(self) -> int:
        return len(self.before.ids) + len(self.between.ids) + len(self.after.ids)


class TokenizePairs:
    """Every window of a text too long for one has the whole query; nothing is cut."""

    Parameters = TokenizePairsParameters

    def __init__(self, parameters: TokenizePairsParameters, model: Model) -> None:
        self._parameters = parameters
        self._progress = model.progress
        self._tokenizer, self._pad_id = read_tokenizer(model.folder, parameters.tokenizer, parameters.threads)
        self._template = _pair_template(self._tokenizer)
        room = parameters.max_length - self._template.special_tokens
        self._longest_query = room // 2
        if room - self._longest_query <= parameters.window_overlap:
            raise InvalidParameter(
                f"parameter 'max_length' is {parameters.max_length}; beside {self._template.special_tokens} special "
                f"tokens, half of it must be more than a window_overlap of {parameters.window_overlap}"
            )

    def answer(self, batch: Sequence[Inputs]) -> list[Answer]:
        """Every text of every request is tokenised together, and each once."""
        return answer_parsed(batch, self._pairs, self._tokenize)

    def _pairs(self, inputs: Inputs) -> list[Pair]:
        queries, texts = (read_texts(name, inputs, self._parameters.max_bytes) for name in ("query", "text"))
        if len(queries) != len(texts):
            found = f"{len(queries)} and {len(texts)} items"
            raise InvalidRequest(f"inputs 'query' and 'text' have {found}; they must have as many", reason="shape")
        return list(zip(queries, texts, strict=True))

    def _tokenize(self, requests: Sequence[list[Pair]]) -> Iterator[Answer]:
        different = list(dict.fromkeys(chain.from_iterable(chain.from_iterable(requests))))
        ids = dict(zip(different, self._ids(different), strict=True))
        for pairs in requests:
            try:
                plans = [self._plan(item, ids[query]) for item, (query, _) in enumerate(pairs)]
                rows = [self._split(item, plans[item], ids[text]) for item, (_, text) in enumerate(pairs)]
            except InvalidRequest as refusal:
                yield refusal
                continue
            outputs = padded_rows(rows, self._pad_id, self._parameters.pad_to_multiple_of)
            if self._parameters.token_types:
                types = [self._types(len(ids[query]), row) for (query, _), row in zip(pairs, rows, strict=True)]
                outputs["token_type_ids"] = padded(types, outputs["input_ids"].shape[1], 0)
            yield outputs

    def _ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        for part in in_parts(texts):
            self._progress.allow(sum(map(len, part)) * CHARACTER_S)
            for encoding in self._tokenizer.encode_batch_fast(part, add_special_tokens=False):
                yield encoding.ids
            self._progress.beat()

    def _plan(self, item: int, query: list[int]) -> WindowPlan:
        if len(query) > self._longest_query:
            raise InvalidRequest(
                f"input 'query', item {item}: {len(query)} tokens; at most {self._longest_query} are allowed, half of "
                f"the room in a window of {self._parameters.max_length}",
                reason="too_long",
            )
        return WindowPlan(
            max_length=self._parameters.max_length,
            overlap=self._parameters.window_overlap,
            prefix=(*self._template.before.ids, *query, *self._template.between.ids),
            suffix=self._template.after.ids,
        )

    def _split(self, item: int, plan: WindowPlan, text: list[int]) -> list[list[int]]:
        ids = [*plan.prefix, *text, *plan.suffix]
        count = plan.count(len(ids))
        if count > self._parameters.max_windows:
            raise InvalidRequest(
                f"input 'text', item {item}: {len(text)} tokens, which is {count} windows of {plan.content} tokens "
                f"beside the query, overlapping by {plan.overlap}; this model takes at most "
                f"{self._parameters.max_windows} windows",
                reason="too_long",
            )
        return plan.split(ids)

    def _types(self, query_length: int, row: Sequence[Sequence[int]]) -> list[list[int]]:
        """The type of every token of a row's windows."""
        template = self._template
        first = [*template.before.types, *[template.query_type] * query_length, *template.between.types]
        own = [len(window) - len(first) - len(template.after.types) for window in row]
        return [[*first, *[template.text_type] * length, *template.after.types] for length in own]


def _pair_template(tokenizer: Tokenizer) -> _Template:
    """What this tokenizer puts around and between the two, seen on a probe rather than known by its family."""
    probe, plain = tokenizer.encode("a", "a"), tokenizer.encode("a", add_special_tokens=False)
    tokens, owners = len(plain.ids), probe.sequence_ids
    begin, second = (owners.index(text) if text in owners else 0 for text in (0, 1))
    parts = slice(begin, begin + tokens), slice(second, second + tokens)
    if not begin + tokens <= second or any(
        probe.ids[part] != plain.ids or set(owners[part]) != {text} or len(set(probe.type_ids[part])) != 1
        for text, part in enumerate(parts)
    ):
        raise InvalidParameter(
            "parameter 'tokenizer': its post-processor does not lay two texts side by side with fixed special tokens"
        )
    around = slice(0, begin), slice(begin + tokens, second), slice(second + tokens, len(probe.ids))
    before, between, after = (_Part(tuple(probe.ids[part]), tuple(probe.type_ids[part])) for part in around)
    return _Template(before, between, after, probe.type_ids[begin], probe.type_ids[second])
