"""What the library's own pipeline for token classification makes of a text, window by window."""

import unicodedata

import numpy as np
import torch
from transformers import TokenClassificationPipeline, pipeline
from transformers.pipelines.token_classification import AggregationStrategy


class LibraryEntities:
    """The pipeline's own steps, but for what docs/contracts.md says otherwise.

    - A token without visible characters takes no part.
    - With `simple`, tokens that share a character are one, with the scores of the first.
    - Marks after a letter that the tokenizer took away belong to the letter.
    - Of a token that is in several windows those of the one count in which most is seen around it.
    """

    def __init__(self, folder, strategy="simple"):
        self.pipe: TokenClassificationPipeline = pipeline("token-classification", model=str(folder))
        self.strategy = AggregationStrategy(strategy)

    def entities(self, text, max_length=10_000, overlap=0):
        tokens = [token for token in self.tokens(text, max_length, overlap) if self.is_visible(text, token)]
        if self.strategy is AggregationStrategy.SIMPLE:
            tokens = sharing_no_character(tokens)
        with_marks(text, tokens)
        groups = self.pipe.aggregate(tokens, self.strategy)
        return [trimmed(text, group) for group in groups if group["entity_group"] != "O"]

    def tokens(self, text, max_length, overlap):
        """Of every token of the text what the pipeline wants to know of it."""
        windows = self.windows(text, max_length, overlap)
        step = len(windows[0]) - overlap
        count = (len(windows) - 1) * step + len(windows[-1])
        for token in range(count):
            own = [index for index in range(len(windows)) if 0 <= token - index * step < len(windows[index])]
            # where more is seen to the side on which less is seen; of equals the earlier
            best = max(own, key=lambda index: (context(token, index, step, windows), -index))
            yield windows[best][token - best * step]

    def windows(self, text, max_length, overlap):
        cut = {"truncation": True, "max_length": max_length, "stride": overlap, "return_overflowing_tokens": True}
        encoded = self.pipe.tokenizer(text, **cut, return_special_tokens_mask=True, return_offsets_mapping=True)
        return [
            self.pipe.gather_pre_entities(text, np.array(ids), self.scores(ids), offsets, mask, self.strategy)
            for ids, offsets, mask in zip(
                encoded["input_ids"], encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True
            )
        ]

    def scores(self, ids):
        with torch.inference_mode():
            return self.pipe.model(torch.tensor([ids])).logits[0].softmax(dim=-1).numpy()

    @staticmethod
    def is_visible(text, token):
        return bool(text[token["start"] : token["end"]].strip())


def context(token, index, step, windows):
    """How many tokens are seen to the side on which fewer are; beyond an end of the text there are none to see."""
    place = token - index * step
    before = place if index else 10**9
    after = len(windows[index]) - 1 - place if index + 1 < len(windows) else 10**9
    return min(before, after)


def sharing_no_character(tokens):
    kept = []
    for token in tokens:
        if kept and token["start"] < kept[-1]["end"]:
            kept[-1]["end"] = max(kept[-1]["end"], token["end"])
        else:
            kept.append(dict(token))
    return kept


def with_marks(text, tokens):
    """Marks after a letter belong to its token, if the tokenizer took them away."""
    for number, token in enumerate(tokens):
        limit = tokens[number + 1]["start"] if number + 1 < len(tokens) else len(text)
        while token["end"] < limit and unicodedata.combining(text[token["end"]]) + (text[token["end"]] == "\ufe0f"):
            token["end"] += 1


def trimmed(text, group):
    """As the stage says it, without spaces at either end."""
    start, end = group["start"], group["end"]
    while text[start].isspace():
        start += 1
    while text[end - 1].isspace():
        end -= 1
    return {
        "label": group["entity_group"],
        "score": float(group["score"]),
        "start": start,
        "end": end,
        "text": text[start:end],
    }
