"""A user's own text checkpoint: what it is, and from it to everything that the exporter writes and checks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

from torch import nn

from trireme_export.assembly import Assembly
from trireme_export.catalogue import TASKS, OwnText, TextTask, TextWindows
from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.intake import family_of
from trireme_export.labelling import Labelling, read_labelling
from trireme_export.library_head import LibraryHead
from trireme_export.model_folder import model_folder
from trireme_export.sentence_layout import SentenceLayout, read_layout
from trireme_export.task_detection import MODULES, architectures_of, detect_task
from trireme_export.text_assembly import TextModel, classification_assembly, entities_assembly
from trireme_export.text_encoder import (
    CLASSIFIERS,
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
from trireme_export.token_labels import read_token_labelling
from trireme_export.weights import read_weights

PRECISION: Literal["fp32"] = "fp32"  # nobody has measured what bf16 does to this checkpoint's answers
_SCHEMES = {
    "bio": "B begins a span, I continues one",
    "bioes": "S is a span, B to E another",
    "bilou": "U is a span, B to L another",
    "bmes": "S is a span, B to E another",
    "plain": "neighbours with the same label are a span",
}


def assemble_own_text(task: OwnText, checkpoint: Checkpoint, cache: Path) -> Assembly:
    """Text to label or to vector, with the checkpoint's own weights alone."""
    folder = model_folder(checkpoint)
    if folder != "." and MODULES in checkpoint.files:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {MODULES} keeps the encoder in {folder}; only one beside {MODULES} can be exported: "
            "save it again with a newer sentence-transformers, which puts it there"
        )
    checkpoint = checkpoint.below(folder)
    config = checkpoint.read_object("config.json")
    library_config(config)
    check_against_library(checkpoint, read_tokenizer(checkpoint, config), config)
    asked = _task(task, checkpoint, config)
    if asked == "sentence-embedding":
        return _embedding(_layout(task, checkpoint), checkpoint, config, cache)
    if task.pooling is not None:
        raise CheckpointRefused("--pooling is for sentence embedding; a classifier's head has its own: leave it out")
    return {"text-classification": _classification, "token-classification": _entities}[asked](checkpoint, config, cache)


def _task(task: OwnText, checkpoint: Checkpoint, config: dict[str, Any]) -> TextTask:
    """What `--task` says, or else the layout of the folder and the architecture that `config.json` names.

    Raises:
        CheckpointRefused: they say nothing that can be exported, or the architecture is another family's.
    """
    architecture = next(iter(architectures_of(config)), "")
    known = {name: classifier_architecture(kind, config) for name, kind in CLASSIFIERS.items()}
    for name, kind in CLASSIFIERS.items():
        if architecture.endswith(kind.value) and architecture != known[name]:
            raise CheckpointRefused(
                f"config.json: architectures says {architecture}, but the classifier of model_type "
                f"{config['model_type']} is {known[name]}: correct the one that is wrong"
            )
    if task.task is not None:
        return task.task
    detected = detect_task(checkpoint, config)
    for task_name in TASKS:
        if detected is not None and detected.task == task_name:
            return task_name
    exported = " and ".join(f"{own} as {name.replace('-', ' ')}" for name, own in known.items())
    raise CheckpointRefused(
        f"{checkpoint.uri}: config.json names the architecture {architecture or 'nothing'}, and there is no {MODULES}, "
        f"so its task is not known. {exported} are exported, a sentence-transformers folder as "
        "sentence embedding; to take the bare encoder, say --task sentence-embedding and --pooling mean or cls"
    )


def _classification(checkpoint: Checkpoint, config: dict[str, Any], cache: Path) -> Assembly:
    labelling = read_labelling(config)
    combine: Literal["mean", "max"] = "mean" if labelling.function == "softmax" else "max"
    windows = decide_windows(checkpoint, position_count(config), combine)
    weights = read_weights(checkpoint, cache)
    classifier = build_classifier(Classifier.SEQUENCES, config, weights, "eager")
    family = family_of(config)
    encoder = classifier.get_submodule(family.encoder)
    head = LibraryHead(classifier, family.head)
    network = TextNetwork(encoder, _head_pooling(config), head, encode_of(family.placement, encoder))
    original = ClassifierOriginal(build_classifier(Classifier.SEQUENCES, config, weights, None))
    model = _model(checkpoint, config, windows, network, original)
    assembly = classification_assembly(model, labelling, ([BENIGN], [ATTACK], [EMPTY], [LONG], [PLAIN, EMOJI]))
    found = {
        "architecture": classifier_architecture(Classifier.SEQUENCES, config),
        "task": "text-classification",
        "labels": _labels(labelling),
        **_text_decisions(windows),
    }
    return dataclasses.replace(assembly, decisions=found)


def _entities(checkpoint: Checkpoint, config: dict[str, Any], cache: Path) -> Assembly:
    labelling = read_token_labelling(config)
    windows = decide_windows(checkpoint, position_count(config), None)
    weights = read_weights(checkpoint, cache)
    classifier = build_classifier(Classifier.TOKENS, config, weights, "eager")
    family = family_of(config)
    encoder = classifier.get_submodule(family.encoder)
    head = nn.Sequential(*(classifier.get_submodule(name) for name in family.token_head))
    network = TokenNetwork(encoder, head, encode_of(family.placement, encoder))
    original = ClassifierOriginal(build_classifier(Classifier.TOKENS, config, weights, None))
    found = {
        "architecture": classifier_architecture(Classifier.TOKENS, config),
        "task": "token-classification",
        "labels": f"{', '.join(labelling.kinds)} ({labelling.scheme}: {_SCHEMES[labelling.scheme]})",
        **_text_decisions(windows),
    }
    assembly = entities_assembly(_model(checkpoint, config, windows, network, original), labelling)
    return dataclasses.replace(assembly, decisions=found)


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
        "architecture": ", ".join(config.get("architectures") or [config["model_type"]]),
        "task": "sentence-embedding",
        "pooling": layout.pooling.value + (f", then {layout.dense}" if layout.dense else ""),
        "normalise": "yes" if layout.normalize else "no",
        **_text_decisions(windows),
    }
    return dataclasses.replace(assembly, decisions=found)


def _layout(task: OwnText, checkpoint: Checkpoint) -> SentenceLayout:
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


def _labels(labelling: Labelling) -> str:
    how = "one of them" if labelling.function == "softmax" else "each by itself"
    return f"{', '.join(labelling.labels)} ({labelling.function}: {how})"


def _text_decisions(windows: TextWindows) -> dict[str, str]:
    combined = "every token labelled where most is seen around it"
    if windows.combine is not None:
        combined = f"combined by {windows.combine}"
    return {
        "window": f"{windows.max_length} tokens with special tokens",
        "long texts": f"split into up to {windows.max_windows} windows overlapping by {windows.overlap} tokens, "
        f"{combined}",
        "precision": f"{PRECISION} on CPUs",
    }
