"""The kind of machine that an artifact was compiled for, as its manifest says (docs/contracts.md, 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FLAVOURS = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}  # Python modules, and what they are called


@dataclass(frozen=True, kw_only=True)
class AotiBinding:
    """Machine code for a CPU, which calls one version of PyTorch."""

    torch: str  # without the local part: +cpu and +cu130 compute alike on a CPU
    cpu_flags: frozenset[str]  # of /proc/cpuinfo: instructions that it may use


@dataclass(frozen=True, kw_only=True)
class TensorRtBinding:
    """A plan for some kinds of GPU, which one version of one library reads."""

    flavour: str  # a key of FLAVOURS
    version: str
    compute_capabilities: tuple[str, ...]  # "8.9"

    def __str__(self) -> str:
        return f"{FLAVOURS[self.flavour]} {self.version} on compute capability {' or '.join(self.compute_capabilities)}"


Binding = AotiBinding | TensorRtBinding


def read_binding(document: Mapping[str, Any]) -> Binding | None:
    """What the manifest `document` says; None: its artifact runs on any machine that its backend runs on.

    Raises:
        KeyError, TypeError, ValueError: it says something else than exporters do.
    """
    if (aoti := document.get("aoti")) is not None:
        return AotiBinding(torch=_text(aoti["torch"]), cpu_flags=frozenset(map(_text, aoti["cpu_flags"])))
    if (plan := document.get("tensorrt")) is not None:
        if plan["flavour"] not in FLAVOURS:
            raise ValueError(f"flavour is {plan['flavour']!r}; it is {' or '.join(FLAVOURS)}")
        capabilities = tuple(map(_text, plan["compute_capabilities"]))
        return TensorRtBinding(
            flavour=plan["flavour"], version=_text(plan["version"]), compute_capabilities=capabilities
        )
    return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} stands where a name belongs")
    return value
