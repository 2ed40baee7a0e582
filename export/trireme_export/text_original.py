"""The PyTorch original of a text model, as its authors run it: a plain 0/1 mask, no packing, pooling in float64.

It is what artifacts are compared with, so it shares nothing with the exported graph but the weights.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from torch import nn

from trireme_export.catalogue import TextWindows
from trireme_export.text_network import Pooling

Floats = NDArray[np.float64]


class Tokenized(NamedTuple):
    """What a model reads of a text, or of two together."""

    ids: Sequence[int]
    types: Sequence[int] | None = None  # of the tokens; None: the model is not told


class Original(ABC):
    """Token ids to what the network must give for them."""

    def __init__(self, modules: nn.Module, twins: Mapping[str, str]) -> None:
        self.modules = modules
        self.twins = twins  # the path of a module in the network to that of the same one in `modules`

    @abstractmethod
    def row(self, ids: Sequence[int], types: Sequence[int] | None = None) -> Floats:
        """(D,) or (labels,), of one sequence of ids alone; (length, labels) where every token is labelled."""

    def rows(self, sequences: Sequence[Sequence[int]]) -> Floats:
        """(sequences, D) or (sequences, labels), each computed alone."""
        return np.stack([self.row(ids) for ids in sequences])


class TextOriginal(Original):
    """Texts to vectors, or to logits with a head."""

    def __init__(self, encoder: nn.Module, pooling: Pooling, head: nn.Module | None = None) -> None:
        self._encoder = encoder
        self._pooling = pooling
        self._head = copy.deepcopy(head).double() if head is not None else None
        modules = {"encoder": encoder} | ({} if self._head is None else {"head": self._head})
        super().__init__(nn.ModuleDict(modules), {name: name for name in modules})

    def row(self, ids: Sequence[int], types: Sequence[int] | None = None) -> Floats:
        """(D,) or (labels,), of one sequence of ids alone."""
        assert types is None, "a text alone has one type of tokens"
        tokens = torch.tensor([list(ids)])
        with torch.inference_mode():
            hidden = self._encoder(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state[0]
        vectors = hidden.numpy().astype(np.float64)  # (length, D)
        pooled = vectors.mean(axis=0) if self._pooling is Pooling.MEAN else vectors[0]
        if self._head is None:
            return pooled  # type: ignore[no-any-return]
        with torch.inference_mode():
            return self._head(torch.from_numpy(pooled)[None, :])[0].numpy()  # type: ignore[no-any-return]


class ClassifierOriginal(Original):
    """Texts, or their tokens, to logits, by the whole classifier as the library defines it."""

    def __init__(self, classifier: nn.Module, twins: Mapping[str, str]) -> None:
        super().__init__(classifier, twins)
        self._classifier = classifier

    def row(self, ids: Sequence[int], types: Sequence[int] | None = None) -> Floats:
        """(labels,) or (length, labels), of one sequence of ids alone."""
        tokens = torch.tensor([list(ids)])
        further = {} if types is None else {"token_type_ids": torch.tensor([list(types)])}
        with torch.inference_mode():
            logits = self._classifier(input_ids=tokens, attention_mask=torch.ones_like(tokens), **further).logits[0]
        return logits.numpy().astype(np.float64)  # type: ignore[no-any-return]


def split_into_windows(tokenizer: Tokenizer, text: str, windows: TextWindows) -> list[Encoding]:
    """A text's overlapping windows, as the tokenizers library itself cuts them."""
    tokenizer.enable_truncation(windows.max_length, stride=windows.overlap)
    try:
        encoding = tokenizer.encode(text)
        return [encoding, *encoding.overflowing]
    finally:
        tokenizer.no_truncation()


def split_pair_into_windows(tokenizer: Tokenizer, query: str, text: str, windows: TextWindows) -> list[Encoding]:
    """The overlapping windows of a text read with a query, each with all of it, as the tokenizers library cuts them."""
    tokenizer.enable_truncation(windows.max_length, stride=windows.overlap, strategy="only_second")
    try:
        encoding = tokenizer.encode(query, text)
        return [encoding, *encoding.overflowing]
    finally:
        tokenizer.no_truncation()
