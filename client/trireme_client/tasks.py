"""What each task sends to its model and how its answer reads. Knows the names of tensors, never their shapes."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any, Generic, TypeAlias, TypeVar

import numpy as np

from trireme_client.calls import Tensors
from trireme_client.errors import InvalidInput
from trireme_client.results import (
    Classification,
    Embedding,
    Entity,
    Extraction,
    ImageClassification,
    ImageEmbedding,
    ImageLabel,
    Relevance,
)

Item = TypeVar("Item")
Result = TypeVar("Result")
Payload: TypeAlias = tuple[bytes, ...]  # of an item, for each input of the model
Image: TypeAlias = "str | os.PathLike[str] | bytes | IO[bytes]"  # a path, the encoded file, or an open binary file


@dataclass(frozen=True)
class Task(Generic[Item, Result]):
    """Turns items into the bytes of input tensors and output tensors into results, one per item."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    encode: Callable[[Item], Payload]
    parse: Callable[[Tensors], Sequence[Result]]


def encode_text(text: str) -> Payload:
    return (_encoded("text", text),)


def encode_pair(pair: tuple[str, str]) -> Payload:
    """A query and a text."""
    query, text = pair
    return _encoded("query", query), _encoded("text", text)


def _encoded(name: str, text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"a {name} must be a str, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name}: {_why_not_unicode(error)}") from None


def _why_not_unicode(error: UnicodeEncodeError) -> str:
    """A byte of a file or of stdin that is not UTF-8 is here as a lone surrogate (PEP 383)."""
    code = ord(error.object[error.start])
    if 0xDC80 <= code <= 0xDCFF:
        return f"not UTF-8: byte 0x{code - 0xDC00:02x} after {error.start} characters"
    return f"not valid Unicode, {error.reason} at position {error.start}"


def encode_image(image: Image) -> Payload:
    return (_read_image(image),)


def _read_image(image: Image) -> bytes:
    if isinstance(image, bytes):
        return image
    if isinstance(image, str | os.PathLike):
        try:
            with open(image, "rb") as file:
                return file.read()
        except OSError as error:
            raise InvalidInput(f"image: cannot read {os.fspath(image)!r}: {error.strerror}") from None
    data = image.read()
    if not isinstance(data, bytes):
        raise TypeError("an image file must be open in binary mode")
    return data


def parse_embeddings(outputs: Tensors) -> list[Embedding]:
    vectors, windows = outputs["embedding"], outputs["windows"]
    return [Embedding(vector, int(count.item())) for vector, count in zip(vectors, windows, strict=True)]


def parse_classifications(outputs: Tensors) -> list[Classification]:
    rows = zip(outputs["label"], outputs["score"], outputs["scores"], outputs["windows"], strict=True)
    return [
        Classification(_text(label.item()), float(score.item()), scores, int(windows.item()))
        for label, score, scores, windows in rows
    ]


def parse_extractions(outputs: Tensors) -> list[Extraction]:
    rows = zip(outputs["entities"], outputs["windows"], strict=True)
    return [
        Extraction(tuple(Entity(**entity) for entity in json.loads(_text(entities.item()))), int(windows.item()))
        for entities, windows in rows
    ]


def parse_relevances(outputs: Tensors) -> list[Relevance]:
    rows = zip(outputs["score"], outputs["windows"], strict=True)
    return [Relevance(float(score.item()), int(windows.item())) for score, windows in rows]


def parse_image_classifications(outputs: Tensors) -> list[ImageClassification]:
    rows = zip(outputs["label"], outputs["score"], strict=True)
    return [ImageClassification(tuple(map(_image_label, labels, scores))) for labels, scores in rows]


def parse_image_embeddings(outputs: Tensors) -> list[ImageEmbedding]:
    return [ImageEmbedding(vector) for vector in outputs["embedding"]]


def _image_label(label: bytes, score: np.float32) -> ImageLabel:
    return ImageLabel(_text(label), float(score))


def _text(value: Any) -> str:
    return bytes(value).decode()


EMBED: Task[str, Embedding] = Task(("text",), ("embedding", "windows"), encode_text, parse_embeddings)
CLASSIFY: Task[str, Classification] = Task(
    ("text",), ("label", "score", "scores", "windows"), encode_text, parse_classifications
)
EXTRACT: Task[str, Extraction] = Task(("text",), ("entities", "windows"), encode_text, parse_extractions)
RERANK: Task[tuple[str, str], Relevance] = Task(("query", "text"), ("score", "windows"), encode_pair, parse_relevances)
CLASSIFY_IMAGE: Task[Image, ImageClassification] = Task(
    ("image",), ("label", "score"), encode_image, parse_image_classifications
)
EMBED_IMAGE: Task[Image, ImageEmbedding] = Task(("image",), ("embedding",), encode_image, parse_image_embeddings)
