"""What text entries have in common: inputs of any size, a tokenizer, and how graph and answers are checked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn

from trireme_export.assembly import Array, Assembly, Difference, GoldenSample, Tolerance
from trireme_export.calibration import read_pairs, read_texts
from trireme_export.catalogue import MAX_BATCH_SIZE
from trireme_export.checkpoint import Checkpoint
from trireme_export.labelling import Labelling
from trireme_export.pair_golden import PairReference, scores_sample
from trireme_export.steps import (
    CpuPrecision,
    EntrySteps,
    ScoreFunction,
    classification_steps,
    embedding_steps,
    entities_steps,
    reranking_steps,
)
from trireme_export.text_golden import TextReference, classification_sample, embedding_sample
from trireme_export.text_original import Tokenized, split_into_windows
from trireme_export.text_parity import alone, text_layers, text_parity_cases
from trireme_export.text_samples import (
    BENIGN,
    CALIBRATION_TEXTS,
    EMOJI,
    EMPTY,
    LONG,
    NAMES,
    PARITY_TEXTS,
    PLAIN,
    QUESTION,
)
from trireme_export.token_golden import entities_sample
from trireme_export.token_labels import TokenLabelling
from trireme_export.tokenizer_facts import FILE

TOLERANCE = Tolerance(max_abs=1e-4, min_cosine=0.999999)
LOGITS_TOLERANCE = Tolerance(max_abs=1e-3, min_cosine=0.999999)
LONG_WINDOWS = 2  # of a long text that are compared; it repeats itself
LOGIT_TOLERANCE = Tolerance(max_abs=1e-3, min_cosine=-1)  # one number has no direction


@dataclass(frozen=True, kw_only=True)
class TextModel:
    """A text model, read from a checkpoint."""

    checkpoint: Checkpoint
    vocabulary: int  # ids below this have a vector
    precision: CpuPrecision  # that the stand-in for CPUs may compute in
    network: nn.Module
    reference: TextReference


def embedding_assembly(model: TextModel, width: int, *, normalize: bool) -> Assembly:
    """Text to a vector of `width` numbers."""

    def golden(measured: Difference) -> list[GoldenSample]:
        requests = ([PLAIN], [EMPTY], [LONG], [EMOJI, BENIGN])
        return [embedding_sample(model.reference, texts, measured, normalize=normalize) for texts in requests]

    steps = embedding_steps(model.reference.windows, width, normalize=normalize, precision=model.precision)
    return _assembly("sentence-embedding", model, steps, TOLERANCE, golden)


def classification_assembly(model: TextModel, labelling: Labelling, requests: Sequence[Sequence[str]]) -> Assembly:
    """Text to label; `requests` are the texts of the golden samples."""

    def golden(measured: Difference) -> list[GoldenSample]:
        return [classification_sample(model.reference, texts, labelling, measured) for texts in requests]

    steps = classification_steps(model.reference.windows, labelling, precision=model.precision)
    return _with_labels(_assembly("text-classification", model, steps, LOGITS_TOLERANCE, golden), labelling.labels)


def entities_assembly(model: TextModel, labelling: TokenLabelling) -> Assembly:
    """Text to labelled spans of its characters."""

    def golden(measured: Difference) -> list[GoldenSample]:
        requests = ([PLAIN], [BENIGN], [EMPTY], [LONG], [EMOJI], [NAMES], [PLAIN, EMPTY, NAMES])
        return [entities_sample(model.reference, texts, labelling, measured) for texts in requests]

    steps = entities_steps(model.reference.windows, labelling, precision=model.precision)
    return _with_labels(_assembly("token-classification", model, steps, LOGITS_TOLERANCE, golden), labelling.labels)


def reranking_assembly(model: TextModel, pairs: PairReference, function: ScoreFunction) -> Assembly:
    """Query and text to score."""

    def golden(measured: Difference) -> list[GoldenSample]:
        requests = (
            (QUESTION, [PLAIN]),
            (QUESTION, [PLAIN, BENIGN, NAMES]),
            (QUESTION, [LONG]),
            (EMPTY, [EMOJI, EMPTY]),
        )
        return [scores_sample(pairs, query, texts, function, measured) for query, texts in requests]

    windows = model.reference.windows
    steps = reranking_steps(windows, function, token_types=pairs.token_types, precision=model.precision)
    assembly = _assembly("reranking", model, steps, LOGIT_TOLERANCE, golden)
    tokens = [pairs.windows(QUESTION, text)[0] for text in PARITY_TEXTS]
    long = pairs.windows(QUESTION, LONG)[:LONG_WINDOWS]
    parity = partial(text_parity_cases, model.reference.original, tokens, long, model.vocabulary, windows.max_length)

    def samples(files: Sequence[Path]) -> Iterator[Mapping[str, Array]]:
        read = read_pairs(files) if files else [(QUESTION, text) for text in CALIBRATION_TEXTS]
        return map(alone, (window for pair in read for window in pairs.windows(*pair)))

    return dataclasses.replace(assembly, parity_cases=parity, samples=samples)


def _with_labels(assembly: Assembly, labels: Sequence[str]) -> Assembly:
    content = json.dumps(labels).encode()
    return dataclasses.replace(assembly, files={**assembly.files, "postprocess/labels.json": content})


def _assembly(
    task: str,
    model: TextModel,
    steps: EntrySteps,
    tolerance: Tolerance,
    golden: Callable[[Difference], list[GoldenSample]],
) -> Assembly:
    """Parity texts are cut to one window."""
    reference, windows = model.reference, model.reference.windows
    texts = [Tokenized(split_into_windows(reference.tokenizer, text, windows)[0].ids) for text in PARITY_TEXTS]
    long = [Tokenized(own.ids) for own in split_into_windows(reference.tokenizer, LONG, windows)[:LONG_WINDOWS]]
    inputs = [spec.name for spec in steps.steps[1].inputs]

    def samples(files: Sequence[Path]) -> Iterator[Mapping[str, Array]]:
        read = read_texts(files) if files else CALIBRATION_TEXTS
        windows_of = partial(split_into_windows, reference.tokenizer, windows=windows)
        return (alone(Tokenized(window.ids)) for text in read for window in windows_of(text))

    return Assembly(
        task=task,
        network=model.network,
        example={name: tensor for name, tensor in _example().items() if name in inputs},
        dynamic={name: {0: "batch", 1: "length"} for name in inputs},
        output=steps.steps[1].outputs[0].name,
        ranges={"batch": (1, MAX_BATCH_SIZE), "length": (1, windows.max_length * windows.max_windows)},
        steps=steps,
        files={f"preprocess/{FILE}": model.checkpoint.path(FILE).read_bytes()},
        tolerance=tolerance,
        parity_cases=lambda: text_parity_cases(reference.original, texts, long, model.vocabulary, windows.max_length),
        samples=samples,
        layers=text_layers(reference.original),
        golden_samples=golden,
    )


def _example() -> dict[str, torch.Tensor]:
    """Two rows of two segments and padding; no size that the graph must not be bound to repeats."""
    mask = torch.tensor([[1, 1, 1, 1, 2, 2, 2, 0, 0], [1, 1, 2, 2, 2, 2, 2, 2, 2]])
    ids = torch.arange(18).reshape(2, 9) + 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids % 2}
