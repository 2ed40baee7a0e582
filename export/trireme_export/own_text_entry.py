"""A user's own text checkpoint: what it is, and from it to everything that the exporter writes and checks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

from trireme_export.assembly import Assembly
from trireme_export.catalogue import TEXT_TASKS, OwnModel, TextTask, TextWindows
from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.intake import family_of
from trireme_export.labelling import Labelling, read_labelling
from trireme_export.library_head import LibraryHead
from trireme_export.model_folder import model_folder
from trireme_export.sentence_layout import SentenceLayout, read_layout
from trireme_export.task_detection import MODULES, architectures_of, detect_task
from trireme_export.text_assembly import TextModel, classification_assembly
from trireme_export.text_encoder import build_classifier, classifier_architecture, library_config
from trireme_export.text_entry import sentence_embedding
from trireme_export.text_golden import TextReference
from trireme_export.text_network import Pooling, TextNetwork
from trireme_export.text_original import ClassifierOriginal
from trireme_export.text_placement import encode_of
from trireme_export.text_samples import ATTACK, BENIGN, EMOJI, EMPTY, LONG, PLAIN
from trireme_export.text_tokenizer import check_against_library, read_tokenizer
from trireme_export.text_windows import decide_windows, position_count
from trireme_export.weights import read_weights

PRECISION: Literal["fp32"] = "fp32"  # nobody has measured what bf16 does to this checkpoint's answers
_CLASSIFIER = "ForSequenceClassification"


def assemble_own_text(task: OwnModel, checkpoint: Checkpoint, cache: Path) -> Assembly:
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
    if _task(task, checkpoint, config) == "text-classification":
        if task.pooling is not None:
            raise CheckpointRefused(
                "--pooling is for sentence embedding; a classifier's head has its own: leave it out"
            )
        return _classification(checkpoint, config, cache)
    return _embedding(_layout(task, checkpoint), checkpoint, config, cache)


def _task(task: OwnModel, checkpoint: Checkpoint, config: dict[str, Any]) -> TextTask:
    """What `--task` says, or else the layout of the folder and the architecture that `config.json` names.

    Raises:
        CheckpointRefused: they say nothing that can be exported, or the architecture is another family's.
    """
    architecture = next(iter(architectures_of(config)), "")
    known = classifier_architecture(config)
    if architecture.endswith(_CLASSIFIER) and architecture != known:
        raise CheckpointRefused(
            f"config.json: architectures says {architecture}, but the classifier of model_type "
            f"{config['model_type']} is {known}: correct the one that is wrong"
        )
    detected = detect_task(checkpoint, config)
    for task_name in TEXT_TASKS:
        if task_name == (task.task or (detected.task if detected else None)):
            return task_name
    raise CheckpointRefused(
        f"{checkpoint.uri}: config.json names the architecture {architecture or 'nothing'}, and there is no {MODULES}, "
        f"so its task is not known. {known} is exported as text classification, a sentence-transformers folder as "
        "sentence embedding; to take the bare encoder, say --task sentence-embedding and --pooling mean or cls"
    )


def _classification(checkpoint: Checkpoint, config: dict[str, Any], cache: Path) -> Assembly:
    labelling = read_labelling(config)
    combine: Literal["mean", "max"] = "mean" if labelling.function == "softmax" else "max"
    family = family_of(config)
    windows = decide_windows(checkpoint, position_count(config), combine)
    weights = read_weights(checkpoint, cache)
    classifier = build_classifier(config, weights, "eager")
    head = LibraryHead(classifier, family.head)
    encoder = classifier.get_submodule(family.encoder)
    model = TextModel(
        checkpoint=checkpoint,
        vocabulary=config["vocab_size"],
        precision=PRECISION,
        network=TextNetwork(encoder, _head_pooling(config), head, encode_of(family.placement, encoder)).eval(),
        reference=TextReference(
            original=ClassifierOriginal(build_classifier(config, weights, None)),
            tokenizer=read_tokenizer(checkpoint, config),
            windows=windows,
        ),
    )
    assembly = classification_assembly(model, labelling, ([BENIGN], [ATTACK], [EMPTY], [LONG], [PLAIN, EMOJI]))
    found = {
        "architecture": classifier_architecture(config),
        "task": "text-classification",
        "labels": _labels(labelling),
        **_text_decisions(windows),
    }
    return dataclasses.replace(assembly, decisions=found)


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


def _labels(labelling: Labelling) -> str:
    how = "one of them" if labelling.function == "softmax" else "each by itself"
    return f"{', '.join(labelling.labels)} ({labelling.function}: {how})"


def _text_decisions(windows: TextWindows) -> dict[str, str]:
    return {
        "window": f"{windows.max_length} tokens with special tokens",
        "long texts": f"split into up to {windows.max_windows} windows overlapping by {windows.overlap} tokens, "
        f"combined by {windows.combine}",
        "precision": f"{PRECISION} on CPUs",
    }
