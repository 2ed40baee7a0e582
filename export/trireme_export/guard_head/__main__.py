"""`python -m trireme_export.guard_head`: fetch the texts, train, choose on validation, report on test, write the head.

Needs `pyarrow` besides what the exporter needs. Figures repeat exactly on one machine; another processor rounds
differently, which can move them by a text or two.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from safetensors.torch import save

from trireme_export.cache import cache_folder
from trireme_export.catalogue import CATALOGUE, PACKAGE, TextClassification
from trireme_export.checkpoint import Checkpoint
from trireme_export.classifier_head import ClassifierHead
from trireme_export.fetch import fetch, fetch_first
from trireme_export.files import write_whole
from trireme_export.guard_head.corpus import (
    SOURCE,
    SPLITS,
    Example,
    Kind,
    Split,
    empty_messages,
    pages,
    permitted_collections,
    read_examples,
    without_leakage,
)
from trireme_export.guard_head.embedding import embed_texts
from trireme_export.guard_head.figures import Floats, Labels, describe, partial_auc, threshold_at
from trireme_export.guard_head.prose import PROSE, read_prose
from trireme_export.guard_head.remarks import remarks
from trireme_export.guard_head.training import Settings, Windows, fit, score_texts
from trireme_export.heads import DESCRIPTION, WEIGHTS
from trireme_export.progress import Reporter

CANDIDATES = tuple(Settings(hidden=64, weight_decay=decay) for decay in (0.3, 1.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitData:
    """One split, ready to train on or to score."""

    windows: Windows
    labels: Labels
    kinds: NDArray[np.str_]

    def of_kind(self, kind: Kind) -> SplitData:
        """The texts of one kind."""
        places = np.flatnonzero(self.kinds == kind)
        return SplitData(windows=self.windows.of(places), labels=self.labels[places], kinds=self.kinds[places])


@click.command()
@click.option("--output", type=click.Path(file_okay=False, exists=True, path_type=Path), default=PACKAGE / "guard_head")
def train_guard_head(output: Path) -> None:
    """Train the head of `guard` and write it to OUTPUT."""
    reporter = Reporter(Console(highlight=False))
    cache = cache_folder(Path.cwd())
    with reporter.phase("guard", "fetch texts and encoder") as advance:
        texts = fetch(SOURCE, cache, advance)
        encoder = fetch_first(CATALOGUE["guard"].sources, cache, advance)
        prose = [(each, fetch(each.source, cache, advance).folder) for each in PROSE]
    prompts = without_leakage(read_examples(texts.folder, permitted_collections()))
    examples = [*prompts, *pages(prompts), *empty_messages(), *remarks(prompts)]
    examples += [example for each, folder in prose for example in read_prose(each, folder)]
    with reporter.phase("guard", f"embed {len(examples)} texts") as advance:
        task = CATALOGUE["guard"].task
        assert isinstance(task, TextClassification), "the catalogue says so"
        windows = embed_texts([each.text for each in examples], encoder, cache, task.windows, advance)
    splits = {split: _split(examples, windows, split) for split in SPLITS}
    with reporter.phase("guard", "train and choose"):
        description, head = _train(splits)
    origin = _origin(texts, encoder, splits)
    weights = save({name: tensor.float() for name, tensor in head.state_dict().items()})
    origin["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    write_whole(output / WEIGHTS, weights)
    write_whole(output / DESCRIPTION, (json.dumps(description | origin, indent=1) + "\n").encode())
    reporter.say("guard", f"on test: {json.dumps(description['figures']['test'])}")


def _split(examples: Sequence[Example], windows: Windows, split: str) -> SplitData:
    places = np.array([place for place, each in enumerate(examples) if each.split == split])
    labels = np.array([each.label for each in examples])
    kinds = np.array([each.kind for each in examples])
    return SplitData(windows=windows.of(places), labels=labels[places], kinds=kinds[places])


def _train(splits: Mapping[Split, SplitData]) -> tuple[dict[str, Any], ClassifierHead]:
    """The candidate with the best partial ROC on validation; its threshold is validation's, its figures are test's.

    Pages, prose and remarks have figures of their own: they say how far the head is good for more than prompts.
    """
    train, validation, test = (splits[split] for split in SPLITS)
    trials = []
    for settings in CANDIDATES:
        head = fit(train.windows, train.labels, settings)
        scores = score_texts(head, validation.windows)
        trials.append((partial_auc(scores, validation.labels), settings, head, scores))
    _, settings, head, scores = max(trials, key=lambda trial: trial[0])
    threshold = _shipped_threshold(scores, validation.labels)
    harmless = {"test_prose": test.of_kind("prose"), "test_remarks": test.of_kind("remark")}
    description = {
        "labels": ["SAFE", "INJECTION"],
        "positive_label": "INJECTION",
        "threshold": threshold,
        "figures": {
            "validation": describe(scores, validation.labels, threshold),
            **{
                name: describe(score_texts(head, data.windows), data.labels, threshold)
                for name, data in (("test", test.of_kind("prompt")), ("test_pages", test.of_kind("page")))
            },
            **{
                name: {
                    "texts": len(data.labels),
                    "false_positive_rate": round(float((score_texts(head, data.windows) >= threshold).mean()), 4),
                }
                for name, data in harmless.items()
            },
        },
        "settings": dataclasses.asdict(settings),
        "trials": [
            {"hidden": each.hidden, "weight_decay": each.weight_decay, "validation_partial_auc": round(area, 4)}
            for area, each, _, _ in trials
        ],
    }
    return description, head


def _shipped_threshold(scores: Floats, labels: Labels) -> float:
    """Six digits, rounded up so that no more negatives reach it."""
    return math.ceil(threshold_at(scores, labels) * 1e6) / 1e6


def _origin(texts: Checkpoint, encoder: Checkpoint, splits: Mapping[Split, SplitData]) -> dict[str, Any]:
    collections = permitted_collections()
    names = [each.files.format(split=split) for each in collections for split in SPLITS]
    return {
        "command": "python -m trireme_export.guard_head",
        "encoder": {"uri": encoder.uri, "sha256": encoder.files["model.safetensors"]},
        "data": {
            "uri": texts.uri,
            "sha256": texts.archive_sha256,
            "collections": [{"name": each.name, "licence": each.licence} for each in collections],
            "files": {name: texts.files[name] for name in names},
            "prose": [{"uri": each.source.uri, "licence": each.licence, "texts": each.count} for each in PROSE],
            "texts_after_removing_duplicates": {split: len(data.labels) for split, data in splits.items()},
        },
    }


train_guard_head()
