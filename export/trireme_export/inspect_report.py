"""What `trireme inspect` prints: lines and a table of blocks for people, one JSON object for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trireme_export.inspection import Inspection
from trireme_export.stored_tensor import StoredTensor
from trireme_export.tensor_blocks import blocks_of, count_dtypes

_SHOWN = 8


def to_json(found: Inspection) -> str:
    """Everything, with every tensor."""
    return json.dumps(
        {
            "source": {"uri": found.uri, "sha256": found.archive_sha256, "folder": found.folder},
            "weights": found.weights,
            "architectures": found.architectures,
            "model_type": found.model_type,
            "task": _fields(found.task),
            "parameters": _parameters(found.tensors),
            "bytes": _bytes(found.tensors),
            "dtypes": count_dtypes(found.tensors),
            "tokenizer": _tokenizer_fields(found),
            "labels": found.labels,
            "licences": [_fields(licence) for licence in found.licences],
            "executables": [{"file": name, "why": why} for name, why in found.executables],
            "warnings": found.warnings,
            "exporter": _fields(found.fit),
            "tensors": [
                {"name": each.name, "dtype": each.dtype, "shape": each.shape, "bytes": each.num_bytes}
                for each in found.tensors
            ],
        }
    )


def print_report(found: Inspection, console: Console) -> None:
    """A line per fact, the warnings, and the tensors by block."""
    for name, text in _facts(found):
        console.print(Text.assemble((f"{name:<13}", "bold"), printable(text)), soft_wrap=True)
    for warning in found.warnings:
        console.print(Text.assemble(("warning      ", "yellow"), printable(warning)), soft_wrap=True)
    if found.tensors:
        console.print(_table(found.tensors))


def printable(text: str) -> str:
    """Names come from a stranger's file and may hold control characters."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _facts(found: Inspection) -> Iterator[tuple[str, str]]:
    place = "" if found.folder == "." else f", in {found.folder}"
    yield "source", f"{found.uri}{f' (sha256 {found.archive_sha256})' if found.archive_sha256 else ''}{place}"
    for name, sha256 in found.weights.items():
        yield "weights", f"{name} (sha256 {sha256})"
    if not found.weights:
        yield "weights", "none that can be read without running code"
    yield "architecture", f"{', '.join(found.architectures) or 'not named'} (model_type {found.model_type})"
    yield "task", f"{found.task.task}: {found.task.because}" if found.task else "nothing says it"
    dtypes = ", ".join(f"{dtype} {count:,}" for dtype, count in count_dtypes(found.tensors).items())
    size = f"{_parameters(found.tensors):,} in {len(found.tensors):,} tensors, {_bytes(found.tensors):,} bytes"
    yield "parameters", f"{size} ({dtypes})" if found.tensors else "unknown"
    yield "tokenizer", _tokenizer(found)
    yield "labels", _some(found.labels) or "none"
    yield "licence", "; ".join(f"{each.text} ({each.place})" for each in found.licences) or "none found"
    yield "exporter", _exporter(found)


def _tokenizer(found: Inspection) -> str:
    facts = found.tokenizer
    if facts is None:
        return "none"
    if facts.vocabulary is None:
        return f"{facts.kind} ({facts.file})"
    against = "" if facts.model_vocabulary is None else f" of the {facts.model_vocabulary:,} that the model has"
    return f"{facts.kind} ({facts.file}), {facts.vocabulary:,} tokens, ids up to {facts.largest_id}{against}"


def _exporter(found: Inspection) -> str:
    if found.fit is None:
        return "this family is not known to `trireme export`, or there are no tensors to compare"
    if found.fit.refusal is None:
        return "every key of config.json and every tensor is accounted for"
    return f"would refuse it: {found.fit.refusal}"


def _tokenizer_fields(found: Inspection) -> dict[str, Any] | None:
    facts = found.tokenizer
    return None if facts is None else {**dataclasses.asdict(facts), "exceeds_model": facts.exceeds_model}


def _fields(value: Any) -> dict[str, Any] | None:
    return None if value is None else dataclasses.asdict(value)


def _table(tensors: Sequence[StoredTensor]) -> Table:
    table = Table(
        "block", "tensors of each", "parameters", "bytes", "dtypes", show_edge=False, box=None, pad_edge=False
    )
    for block in blocks_of(tensors):
        more = f" + {block.others} alike" if block.others else ""
        dtypes = ", ".join(count_dtypes(block.tensors))
        sums = (len(block.tensors), _parameters(block.tensors), _bytes(block.tensors))
        table.add_row(Text(printable(block.name) + more), *(f"{number:,}" for number in sums), dtypes)
    return table


def _parameters(tensors: Sequence[StoredTensor]) -> int:
    return sum(tensor.num_elements for tensor in tensors)


def _bytes(tensors: Sequence[StoredTensor]) -> int:
    return sum(tensor.num_bytes for tensor in tensors)


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest
