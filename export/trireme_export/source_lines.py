"""Which line of the model's Python each node of its ONNX graph comes from. Traces the network again to find out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trireme_export.assembly import Assembly
from trireme_export.to_onnx import trace

_TRACE, _SCOPES = "pkg.torch.onnx.stack_trace", "pkg.torch.onnx.name_scopes"  # what the exporter notes of a node
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\s*\n?\s*(?P<code>[^\n]*)')


@dataclass(frozen=True, kw_only=True)
class SourceLine:
    """Where a node was asked for."""

    file: str
    line: int
    code: str
    module: str  # its path in the network: "encoder.layer.0.attention"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}, in the module {self.module or 'itself'}: {self.code}"


def source_lines(assembly: Assembly) -> dict[str, SourceLine]:
    """By the name of the node, in the graph that `write_onnx` makes of `assembly`. Nodes made by no line are absent."""
    nodes = trace(assembly).model.graph.all_nodes()
    lines = {node.name: read_source_line(node.metadata_props) for node in nodes if node.name is not None}
    return {name: line for name, line in lines.items() if line is not None}


def read_source_line(notes: dict[str, str]) -> SourceLine | None:
    """The innermost line of the stack that the exporter notes of a node."""
    frames = list(_FRAME.finditer(notes.get(_TRACE, "")))
    if not frames:
        return None
    frame = frames[-1]
    scopes = re.findall(r"'([^']*)'", notes.get(_SCOPES, ""))
    module = scopes[-2] if len(scopes) > 1 else ""
    return SourceLine(file=frame["file"], line=int(frame["line"]), code=frame["code"].strip(), module=module)
