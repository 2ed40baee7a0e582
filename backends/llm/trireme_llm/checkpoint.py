"""A checkpoint opened: a Hugging Face style folder of safetensors, or a GGUF file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer

from trireme_llm import gguf_tokenizer
from trireme_llm.decoder_config import DecoderConfig
from trireme_llm.errors import UnsupportedCheckpoint
from trireme_llm.families import read_decoder_config
from trireme_llm.gguf_file import GgufFile
from trireme_llm.gguf_model import GgufSource, config_json
from trireme_llm.weights import SafetensorsSource, WeightSource

REFUSED_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Everything but the weights is small and in memory."""

    path: Path
    config: DecoderConfig
    source: WeightSource
    end_ids: frozenset[int]  # end of sequence, by config and generation config
    tokenizer: Tokenizer | None  # None: the folder has no tokenizer.json
    chat_template: str | None

    @cached_property
    def fingerprint(self) -> str:
        """Tells checkpoints apart, without reading all of their weights."""
        return hashlib.sha256(f"{self.path.resolve()}\n{self.config}".encode()).hexdigest()


def open_checkpoint(path: Path) -> Checkpoint:
    """Raises UnsupportedCheckpoint with what is wrong, and advice where there is any."""
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        raise UnsupportedCheckpoint(f"{path} does not exist")
    if path.suffix in REFUSED_SUFFIXES:
        raise UnsupportedCheckpoint(f"{path} is a pickle, which can run code; convert it to safetensors first")
    return _open_gguf(path)


def _open_gguf(path: Path) -> Checkpoint:
    file = GgufFile(path)
    return Checkpoint(
        path=path,
        config=read_decoder_config(config_json(file)),
        source=GgufSource(file),
        end_ids=gguf_tokenizer.end_ids(file),
        tokenizer=gguf_tokenizer.read_tokenizer(file),
        chat_template=gguf_tokenizer.chat_template(file),
    )


def _open_folder(folder: Path) -> Checkpoint:
    config = _read_json(folder / "config.json")
    generation_path = folder / "generation_config.json"
    generation = _read_json(generation_path) if generation_path.exists() else {}
    tokenizer_path = folder / "tokenizer.json"
    return Checkpoint(
        path=folder,
        config=read_decoder_config(config),
        source=SafetensorsSource(folder),
        end_ids=_ids(config.get("eos_token_id")) | _ids(generation.get("eos_token_id")),
        tokenizer=Tokenizer.from_file(str(tokenizer_path)) if tokenizer_path.exists() else None,
        chat_template=_folder_template(folder),
    )


def _read_json(path: Path) -> Mapping[str, object]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UnsupportedCheckpoint(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise UnsupportedCheckpoint(f"{path} is not a JSON object")
    return value


def _ids(value: object) -> frozenset[int]:
    """One id, a list of ids, or nothing; 0 is an id like any other."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, int) for each in values):
        raise UnsupportedCheckpoint(f"eos_token_id is {value!r}; an id or a list of ids is needed")
    return frozenset(values)


def _folder_template(folder: Path) -> str | None:
    separate, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if separate.exists():
        return separate.read_text()
    template = _read_json(config).get("chat_template") if config.exists() else None
    return template if isinstance(template, str) else None
