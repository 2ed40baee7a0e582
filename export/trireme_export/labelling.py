"""How logits become labels: what a classifier's description says. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trireme_export.errors import CheckpointRefused

_SHOWN = 8  # labels, on the terminal
_FUNCTIONS: Mapping[str | None, Literal["softmax", "sigmoid"]] = {
    None: "softmax",
    "single_label_classification": "softmax",
    "multi_label_classification": "sigmoid",
}


@dataclass(frozen=True, kw_only=True)
class Labelling:
    """`threshold` and `positive_label` go together: that label is given exactly when its score reaches the threshold.

    Without them the label with the largest score is given.
    """

    labels: tuple[str, ...]  # in the order of the logits
    function: Literal["softmax", "sigmoid"]
    positive_label: str | None = None
    threshold: float | None = None


def read_labelling(config: Mapping[str, Any], *, shared_names: bool = False) -> Labelling:
    """What `config.json` of a classifier says of its labels; `shared_names`: classes may have the same one.

    Raises:
        CheckpointRefused: the labels contradict each other, or the head is a regression.
    """
    labels = read_labels(config, shared_names=shared_names)
    problem = config.get("problem_type")
    if not isinstance(problem, str | None) or problem not in _FUNCTIONS:
        known = ", ".join(name for name in _FUNCTIONS if name)
        raise CheckpointRefused(f"config.json: problem_type is {problem!r}; {known} can be exported")
    if len(labels) == 1 and _FUNCTIONS[problem] == "softmax":
        raise CheckpointRefused(
            "config.json: one label, whose softmax is always 1. If the sigmoid of its logit is a probability, "
            "set problem_type to multi_label_classification; if it says how well a text fits a query, say "
            "--task reranking; another regression cannot be exported"
        )
    return Labelling(labels=labels, function=_FUNCTIONS[problem])


def read_labels(config: Mapping[str, Any], *, shared_names: bool = False) -> tuple[str, ...]:
    """The labels of a classifier by its `config.json`, in the order of the logits.

    Raises:
        CheckpointRefused: they contradict each other.
    """
    names = config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})  # what the library takes for granted
    if not isinstance(names, Mapping) or not names or not all(isinstance(name, str) for name in names.values()):
        raise CheckpointRefused(
            f"config.json: id2label is {names!r}; it must name every logit, as in "
            '{"0": "negative", "1": "positive"}: write the names in the order in which the model was trained'
        )
    wanted = [str(index) for index in range(len(names))]
    if sorted(names, key=str) != sorted(wanted):
        raise CheckpointRefused(
            f"config.json: id2label has the indices {', '.join(map(str, names))}; "
            f"{len(names)} labels must have 0 to {len(names) - 1}, each once"
        )
    labels = tuple(names[index] for index in wanted)
    _check_inverse(labels, config.get("label2id"), shared_names=shared_names)
    for key in ("num_labels", "_num_labels"):
        if config.get(key, len(labels)) != len(labels):
            raise CheckpointRefused(f"config.json: {key} is {config[key]!r}, but id2label names {len(labels)} labels")
    return labels


def _check_inverse(labels: tuple[str, ...], indices: object, *, shared_names: bool) -> None:
    """`label2id` may be missing; where it is there it must say the same as `id2label`."""
    if len(set(labels)) != len(labels) and not shared_names:
        raise CheckpointRefused(f"config.json: id2label gives a name twice: {', '.join(labels)}")
    if indices is None:
        return
    expected = {label: index for index, label in enumerate(labels)}
    if not isinstance(indices, Mapping) or indices.keys() != expected.keys() or not _fits(labels, indices):
        raise CheckpointRefused(
            f"config.json: id2label and label2id contradict each other: id2label means {expected}, label2id says "
            f"{indices}. Find out in which order the model was trained, and correct the one that is wrong"
        )


def _fits(labels: tuple[str, ...], indices: Mapping[Any, Any]) -> bool:
    """Every name's index is one of those that have it."""
    return all(
        type(index) is int and 0 <= index < len(labels) and labels[index] == name for name, index in indices.items()
    )


def labels_decision(labelling: Labelling) -> str:
    """The first of them, what is done with their logits, and which of them share a name."""
    names, count = labelling.labels, len(labelling.labels)
    rest = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    how = "one of them" if labelling.function == "softmax" else "each by itself"
    shared = [name for name, times in Counter(names).items() if times > 1]
    notes = f"; classes share {', '.join(shared)}" if shared else ""
    if names == tuple(f"LABEL_{index}" for index in range(count)):
        notes = "; config.json gives them no other names"
    return f"{', '.join(names[:_SHOWN])}{rest} ({labelling.function}: {how}{notes})"
