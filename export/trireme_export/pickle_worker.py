"""Run as a program: reads a PyTorch pickle in a sandbox and writes its tensors to stdout as safetensors.

The last line on stderr is a JSON object: {"enforced": [...]} or {"refused": "why"}. It imports nothing of this package
but the sandbox beside it, and is started with an isolated interpreter.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

MEMORY_BASE = 8 << 30  # address space that torch itself maps
CPU_S = 300
CONTAINERS = ("state_dict", "model_state_dict", "model")  # keys under which training scripts keep the tensors


class Refused(Exception):
    """The file is not a plain mapping of names to tensors."""


def main(path: str) -> None:
    """Convert the pickle at `path`.

    torch is imported after the network is gone and before the file system is: importing looks for places to write.
    """
    sandbox = _load_sandbox()
    no_network = sandbox.leave_network()
    import torch
    from safetensors.torch import save

    sandbox.limit_resources(MEMORY_BASE + 6 * Path(path).stat().st_size, CPU_S)
    if not sandbox.filter_system_calls():
        raise Refused("this machine has no system-call filter (seccomp), so the file cannot be read safely")
    tensors = named_tensors(torch.load(path, map_location="cpu", weights_only=True))
    sys.stdout.buffer.write(save({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}))
    sys.stdout.buffer.flush()
    network = "an empty network namespace" if no_network else "no network namespace (not permitted)"
    enforced = [network, "a system-call filter: no sockets, no programs, read-only files", "limits of memory and time"]
    print(json.dumps({"enforced": enforced}), file=sys.stderr)


def _load_sandbox() -> ModuleType:
    """The module beside this file; an isolated interpreter does not look there."""
    spec = importlib.util.spec_from_file_location("trireme_sandbox", Path(__file__).with_name("sandbox.py"))
    assert spec is not None, "there is a file beside this one"
    assert spec.loader is not None, "a Python file has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named_tensors(content: Any) -> dict[str, Any]:
    """The tensors of what a training script saved.

    Raises:
        Refused: it is not a mapping of names to tensors, alone or under one of CONTAINERS.
    """
    import torch

    if isinstance(content, dict):
        for key in CONTAINERS:
            if isinstance(content.get(key), dict):
                content = content[key]
                break
    if not isinstance(content, dict) or not content:
        raise Refused(f"it holds {type(content).__name__}, not names with tensors")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise Refused(f"its item {str(name)[:100]!r} is {type(value).__name__}, not a tensor")
    return content


def _reason(error: Exception) -> str:
    """What is wrong, without torch's advice to read the file unsafely."""
    if type(error).__name__ == "UnpicklingError":
        named = re.search(r"(unsupported|Unsupported)[^\n]*", str(error))
        return f"reading it would run code, or need a type that is not plain data ({named[0] if named else 'unnamed'})"
    return f"{type(error).__name__}: {error}"[:1000]


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Exception as error:  # the outermost handler of this process
        print(json.dumps({"refused": _reason(error)}), file=sys.stderr)
        sys.exit(1)
