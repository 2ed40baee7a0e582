"""A user's own text checkpoint: what it is, and from it to everything that the exporter writes and checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer
from torch import Tensor, nn

from trireme_export.assembly import Assembly
from trireme_export.catalogue import TEXT_TASKS, Aggregation, OwnModel, TextWindows
from trireme_export.checkpoint import Checkpoint
from trireme_export.cross_encoder import read_pair_length, read_score_function
from trireme_export.errors import CheckpointRefused
from trireme_export.intake import family_of
from trireme_export.labelling import labels_decision, read_labelling, read_labels
from trireme_export.library_head import LibraryHead
from trireme_export.model_folder import model_folder
from trireme_export.pair_golden import PairReference
from trireme_export.pair_tokenizer import uses_token_types
from trireme_export.sentence_layout import SentenceLayout, read_layout
from trireme_export.sizes import check_sizes
from trireme_export.steps import ScoreFunction
from trireme_export.task_detection import MODULES, architectures_of, detect_task, without_mark
from trireme_export.text_assembly import TextModel, classification_assembly, entities_assembly, reranking_assembly
from trireme_export.text_encoder import (
    Classifier,
    build_classifier,
    classifier_architecture,
    library_config,
)
from trireme_export.text_entry import sentence_embedding
from trireme_export.text_golden import TextReference
from trireme_export.text_network import Pooling, TextNetwork, TokenNetwork
from trireme_export.text_original import ClassifierOriginal, Original
from trireme_export.text_placement import encode_of
from trireme_export.text_samples import ATTACK, BENIGN, EMOJI, EMPTY, LONG, PLAIN
from trireme_export.text_tokenizer import check_against_library, read_tokenizer
from trireme_export.text_windows import decide_windows, position_count
from trireme_export.token_labels import Scheme, read_token_labelling
from trireme_export.weights import read_weights

PRECISION: Literal["fp32"] = "fp32"  # nobody has measured what bf16 does to this checkpoint's answers
_AGGREGATIONS: Mapping[Aggregation, str] = {
    "simple": "every token is given a label",
    "first": "every word is given the label of its first token",
    "average": "every word is given a label by the mean of its tokens' scores",
    "max": "every word is given the label of its surest token",
}
_SCHEMES: Mapping[Scheme, str] = {
    "bio": "B begins a span, I continues one",
    "bioes": "S is a span, B to E another",
    "bilou": "U is a span, B to L another",
    "bmes": "S is a span, B to E another",
    "plain": "neighbours with the same label are a span",
}


def assemble_own_text(task: OwnModel, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Text to label or to vector, with the checkpoint's own weights alone."""
    folder = model_folder(checkpoint)
    if folder != "." and MODULES in checkpoint.files:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {MODULES} keeps the encoder in {folder}; only one beside {MODULES} can be exported: "
            "save it again with a newer sentence-transformers, which puts it there"
        )
    checkpoint = checkpoint.below(folder)
    stated = checkpoint.read_object("config.json")
    detected = detect_task(checkpoint, stated)
    asked = task.task or (None if detected is None else detected.task)
    config = without_mark(stated) if asked == "reranking" else stated
    check_sizes(config, [tensor.shape for tensor in read_weights(checkpoint, cache).values()])
    library_config(config)
    check_against_library(checkpoint, read_tokenizer(checkpoint, config), config)
    _check_task(asked, checkpoint, config)
    if asked != "token-classification" and task.aggregation is not None:
        raise CheckpointRefused(f"--aggregation is for token classification, not for {asked}: leave it out")
    if asked == "sentence-embedding":
        return _embedding(_layout(task, checkpoint), checkpoint, config, cache)
    if task.pooling is not None:
        raise CheckpointRefused("--pooling is for sentence embedding; a classifier's head has its own: leave it out")
    if asked == "reranking":
        return _reranking(read_score_function(checkpoint, stated), checkpoint, config, cache)
    if asked == "token-classification":
        return _entities(task.aggregation or "simple", checkpoint, config, cache)
    return _classification(checkpoint, config, cache)


def _check_task(asked: str | None, checkpoint: Checkpoint, config: dict[str, Any]) -> None:
    """`asked` is what `--task` says, or else what the files do.

    Raises:
        CheckpointRefused: it is nothing that can be exported, or the architecture is another family's.
    """
    architecture = next(iter(architectures_of(config)), "")
    known = {kind: classifier_architecture(kind, config) for kind in Classifier}
    for kind, own in known.items():
        if architecture.endswith(kind.value) and architecture != own:
            raise CheckpointRefused(
                f"config.json: architectures says {architecture}, but the classifier of model_type "
                f"{config['model_type']} is {own}: correct the one that is wrong"
            )
    if asked in TEXT_TASKS:
        return
    raise CheckpointRefused(
        f"{checkpoint.uri}: config.json names the architecture {architecture or 'nothing'}, and there is no {MODULES}, "
        f"so its task is not known. {' and '.join(known.values())} are exported, a sentence-transformers folder as "
        "sentence embedding; to take the bare encoder, say --task sentence-embedding and --pooling mean or cls"
    )


def _classification(checkpoint: Checkpoint, config: dict[str, Any], cache: Path) -> Assembly:
    labelling = read_labelling(config)
    combine: Literal["mean", "max"] = "mean" if labelling.function == "softmax" else "max"
    windows = decide_windows(checkpoint, position_count(config), combine)
    model = _classifier_of_texts(checkpoint, config, windows, read_weights(checkpoint, cache))
    assembly = classification_assembly(model, labelling, ([BENIGN], [ATTACK], [EMPTY], [LONG], [PLAIN, EMOJI]))
    found = {
        "architecture": classifier_architecture(Classifier.SEQUENCES, config),
        "task": "text-classification",
        "labels": labels_decision(labelling),
        **_text_decisions(windows),
    }
    return dataclasses.replace(assembly, decisions=found)


def _entities(aggregation: Aggregation, checkpoint: Checkpoint, config: dict[str, Any], cache: Path) -> Assembly:
    labelling = dataclasses.replace(read_token_labelling(config), aggregation=aggregation)
    windows = decide_windows(checkpoint, position_count(config), None)
    weights = read_weights(checkpoint, cache)
    classifier = build_classifier(Classifier.TOKENS, config, weights, "eager")
    family = family_of(config)
    encoder = classifier.get_submodule(family.encoder)
    head = nn.Sequential(*(classifier.get_submodule(name) for name in family.token_head))
    network = TokenNetwork(encoder, head, encode_of(family.placement, encoder))
    twins = {"encoder": family.encoder} | {f"head.{place}": name for place, name in enumerate(family.token_head)}
    original = ClassifierOriginal(build_classifier(Classifier.TOKENS, config, weights, None), twins)
    found = {
        "architecture": classifier_architecture(Classifier.TOKENS, config),
        "task": "token-classification",
        "labels": f"{', '.join(labelling.kinds)} ({labelling.scheme}: {_SCHEMES[labelling.scheme]})",
        "aggregation": f"{aggregation}: {_AGGREGATIONS[aggregation]}",
        **_text_decisions(windows),
    }
    assembly = entities_assembly(_model(checkpoint, config, windows, network, original), labelling)
    return dataclasses.replace(assembly, decisions=found)


def _reranking(function: ScoreFunction, checkpoint: Checkpoint, config: dict[str, Any], cache: Path) -> Assembly:
    labels = read_labels(config)
    if len(labels) != 1:
        raise CheckpointRefused(f"config.json: {len(labels)} labels, {', '.join(labels)}; a reranker has one logit")
    windows = decide_windows(checkpoint, position_count(config), "max", read_pair_length(checkpoint))
    model = _classifier_of_texts(checkpoint, config, windows, read_weights(checkpoint, cache))
    token_types = _token_types(checkpoint, config, model.reference.tokenizer)
    pairs = PairReference(text=model.reference, token_types=token_types)
    found = {
        "architecture": classifier_architecture(Classifier.SEQUENCES, config),
        "task": "reranking",
        "score": "the logit itself" if function == "identity" else "sigmoid of the logit",
        **_text_decisions(windows),
        "query": "the whole of it in every window, of which it may take half",
    }
    return dataclasses.replace(reranking_assembly(model, pairs, function), decisions=found)


def _token_types(checkpoint: Checkpoint, config: dict[str, Any], tokenizer: Tokenizer) -> bool:
    """Whether the graph is told which of the two texts a token is of: if the library tells the model, and it looks."""
    given, types = uses_token_types(checkpoint, tokenizer), getattr(library_config(config), "type_vocab_size", 0)
    if given and types == 1:
        raise CheckpointRefused(
            "the tokenizer gives the second of two texts the type 1, and config.json has a type_vocab_size of 1: "
            "they are not of the same model"
        )
    return given and types > 1


def _classifier_of_texts(
    checkpoint: Checkpoint, config: dict[str, Any], windows: TextWindows, weights: Mapping[str, Tensor]
) -> TextModel:
    """The library's sequence classifier with its own head."""
    classifier = build_classifier(Classifier.SEQUENCES, config, weights, "eager")
    family = family_of(config)
    encoder = classifier.get_submodule(family.encoder)
    head = LibraryHead(classifier, family.head)
    network = TextNetwork(encoder, _head_pooling(config), head, encode_of(family.placement, encoder))
    twins = {"encoder": family.encoder} | {f"head.steps.{place}": name for place, name in enumerate(family.head)}
    original = ClassifierOriginal(build_classifier(Classifier.SEQUENCES, config, weights, None), twins)
    return _model(checkpoint, config, windows, network, original)


def _model(
    checkpoint: Checkpoint, config: dict[str, Any], windows: TextWindows, network: nn.Module, original: Original
) -> TextModel:
    return TextModel(
        checkpoint=checkpoint,
        vocabulary=config["vocab_size"],
        precision=PRECISION,
        network=network.eval(),
        reference=TextReference(original=original, tokenizer=read_tokenizer(checkpoint, config), windows=windows),
    )


def _head_pooling(config: dict[str, Any]) -> Pooling:
    """What a classifier's head looks at: the first token, unless the family lets the config say."""
    return Pooling(getattr(library_config(config), "classifier_pooling", Pooling.CLS))


def _embedding(layout: SentenceLayout, checkpoint: Checkpoint, config: dict[str, Any], cache: Path) -> Assembly:
    positions = position_count(config)
    windows = decide_windows(checkpoint, positions, "mean", layout.trained_length)
    assembly = sentence_embedding(checkpoint, cache, windows, layout, precision=PRECISION)
    found = {
        "architecture": ", ".join(architectures_of(config)) or config["model_type"],
        "task": "sentence-embedding",
        "pooling": layout.pooling.value + (f", then {layout.dense}" if layout.dense else ""),
        "normalise": "yes" if layout.normalize else "no",
        **_text_decisions(windows),
    }
    return dataclasses.replace(assembly, decisions=found)


def _layout(task: OwnModel, checkpoint: Checkpoint) -> SentenceLayout:
    """The checkpoint's own, or that of a bare encoder, whose pooling nobody can guess."""
    if MODULES in checkpoint.files:
        if task.pooling is not None:
            raise CheckpointRefused(f"{checkpoint.uri}: {MODULES} says how it is pooled: leave --pooling out")
        return read_layout(checkpoint)
    if task.pooling is None:
        raise CheckpointRefused(
            f"{checkpoint.uri}: there is no {MODULES}, so its pooling is not known: say --pooling mean or "
            "--pooling cls, as the model was trained"
        )
    return SentenceLayout(pooling=Pooling(task.pooling), normalize=False)


def _text_decisions(windows: TextWindows) -> dict[str, str]:
    combined = "every token labelled where most is seen around it"
    if windows.combine is not None:
        combined = f"combined by {windows.combine}"
    return {
        "window": f"{windows.max_length} tokens with special tokens",
        "long texts": f"split into up to {windows.max_windows} windows overlapping by {windows.overlap} tokens, "
        f"{combined}",
    }
