"""`manifest.json` of an entry: the hashes of its artifacts and its golden samples (docs/contracts.md, 5)."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trireme_server.machine_binding import Binding, read_binding

SCHEMA = 1


class InvalidManifest(Exception):
    """A manifest that cannot be used. The text names the file and what is wrong."""


@dataclass(frozen=True)
class Check:
    """How an answer is compared with the expected one."""

    kind: Literal["equal", "max_abs", "min_cosine", "json_max_abs"]
    bound: float = 0.0


@dataclass(frozen=True)
class Tensor:
    """A named tensor, its values flattened in row-major order."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: tuple[Any, ...]  # bytes for BYTES, else numbers or booleans
    check: Check | None = None  # None: an input


@dataclass(frozen=True)
class GoldenSample:
    """A request and the answer the checkpoint's original gives to it."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Artifact:
    """What a file of the repository must be."""

    sha256: str
    size: int  # bytes


@dataclass(frozen=True)
class Manifest:
    """As much of a manifest as the launcher needs."""

    file: Path
    entry: str
    version: int
    models: tuple[str, ...]  # of the entry
    task: str
    artifacts: Mapping[str, Artifact]  # by path relative to the repository
    golden: tuple[GoldenSample, ...]
    source: str | None  # address of the checkpoint, as `trireme export` takes it; None: it does not say
    options: tuple[str, ...] = ()  # of `trireme export`: what the network was written as
    binding: Binding | None = None  # None: it runs wherever its backend does


def read_manifest(file: Path) -> Manifest:
    """The manifest in `file`.

    Raises:
        InvalidManifest: it is not JSON, of another schema, or lacks something.
    """
    try:
        document = json.loads(file.read_bytes())
        if document["schema"] != SCHEMA:
            raise InvalidManifest(f"{file} has schema {document['schema']}; this version reads {SCHEMA}")
        return Manifest(
            file=file,
            entry=document["entry"],
            version=_integer(document["version"]),
            models=tuple(map(_string, document["models"])),
            task=document["task"],
            artifacts={path: Artifact(each["sha256"], each["bytes"]) for path, each in document["artifacts"].items()},
            golden=tuple(_golden_sample(sample) for sample in document["golden"]),
            source=_address(document.get("source", {})),
            options=_options(document),
            binding=read_binding(document),
        )
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidManifest(f"{file} cannot be read: {error}") from error
    except KeyError as error:
        raise InvalidManifest(f"{file} lacks {error}") from error


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"version is {value!r}, which is no whole number")
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"models holds {value!r} where a name belongs")
    return value


def _address(source: Mapping[str, Any]) -> str | None:
    uri, sha256 = source.get("uri"), source.get("sha256")
    if not isinstance(uri, str) or not uri:
        return None
    return uri if sha256 is None or "#" in uri else f"{uri}#sha256={sha256}"


def _options(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that differ from the default. A manifest of before there was a choice has neither key."""
    asked = (("--to", document.get("target", "onnx"), "onnx"), ("--precision", document.get("precision"), "fp32"))
    return tuple(word for option, value, default in asked if value not in {default, None} for word in (option, value))


def _golden_sample(document: Mapping[str, Any]) -> GoldenSample:
    return GoldenSample(
        inputs=tuple(_tensor(tensor, None) for tensor in document["inputs"]),
        outputs=tuple(_tensor(tensor, _check(tensor["check"])) for tensor in document["outputs"]),
    )


def _tensor(document: Mapping[str, Any], check: Check | None) -> Tensor:
    name, datatype, shape = document["name"], document["datatype"], tuple(document["shape"])
    is_bytes = datatype == "BYTES"
    values = [base64.b64decode(item) for item in document["data_base64"]] if is_bytes else _numbers(name, document)
    if math.prod(shape) != len(values):
        raise ValueError(f"{name} has {len(values)} values, which its shape {list(shape)} does not")
    if check is not None and check.kind != "equal" and is_bytes != (check.kind == "json_max_abs"):
        raise ValueError(f"{name} is {datatype}, which no {check.kind} compares")
    if check is not None and check.kind == "min_cosine" and not (shape and shape[-1]):
        raise ValueError(f"{name} has shape {list(shape)}: no rows for min_cosine")
    return Tensor(name, datatype, shape, tuple(values), check)


def _numbers(name: str, document: Mapping[str, Any]) -> list[Any]:
    values = list(document["data"])
    for value in values:
        if not isinstance(value, int | float):
            raise ValueError(f"{name} holds {value!r} where a number belongs")
        float(value)  # raises OverflowError for an integer that no tensor holds
    return values


def _check(document: Mapping[str, Any]) -> Check:
    if document == {"equal": True}:
        return Check("equal")
    kinds: tuple[Literal["max_abs", "min_cosine", "json_max_abs"], ...] = ("max_abs", "min_cosine", "json_max_abs")
    for kind in kinds:
        if list(document) == [kind]:
            return Check(kind, float(document[kind]))
    allowed = ", ".join(f'{{"{kind}": x}}' for kind in kinds)
    raise ValueError(f'check is {document}; it is {{"equal": true}}, {allowed}')
