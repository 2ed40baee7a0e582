"""Checks of what is installed: tritonserver, the stub's Python, and the packages the models' backends import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from packaging.version import Version

from trireme_server.find_server import ServerNotFound, find_installation
from trireme_server.preflight import Finding, Surroundings, fail, ok
from trireme_server.repository import Model

_INSTALL = "pip install 'trireme[server]'"
_FIXES = {"torch": "pip install 'trireme[export]', which has it: the network calls PyTorch"}
_RUNTIME = "trireme.runtime"
_RUNTIMES = ("onnxruntime", "openvino")  # others keep the model from loading, and it says which there are
_STAGE_MODULES = {"tokenize": ("tokenizers",), "image": ("PIL",)}


def server(around: Surroundings) -> Iterator[Finding]:
    if around.installation is not None:
        yield ok("tritonserver", f"{around.installation.binary} ({around.installation.kind})")
        return
    try:
        find_installation()
    except ServerNotFound as error:
        found, _, fix = str(error).partition(": ")
        yield fail("tritonserver", found, fix)


def server_runs(around: Surroundings) -> Iterator[Finding]:
    """Whether the programs find their shared libraries. Takes part of a second: for `trireme doctor`."""
    if around.installation is None:
        return
    environment = around.installation.environment({}, 1)
    for name, command in (
        ("tritonserver runs", [str(around.installation.binary), "--help"]),
        ("Python stub runs", [str(around.installation.stub)]),  # without arguments it says what it misses, and ends
    ):
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        if "error while loading shared libraries" in result.stderr or result.returncode == 127:
            yield fail(name, result.stderr.strip(), f"install the library, or install anew: {_INSTALL}")
        else:
            yield ok(name, "yes")


def numpy(around: Surroundings) -> Iterator[Finding]:
    fix = "pip install 'numpy<2' in the environment of this command"
    try:
        found = version("numpy")
    except PackageNotFoundError:
        yield fail("numpy of the stubs", "not installed", fix)
        return
    if around.installation is not None and around.installation.kind == "wheel" and Version(found) >= Version("2"):
        yield fail("numpy of the stubs", f"{found}: a stub of Triton 2.51 dies of BYTES tensors with it", fix)
    else:
        yield ok("numpy of the stubs", f"{found}, Python {sys.version_info.major}.{sys.version_info.minor}")


def packages(around: Surroundings) -> Iterator[Finding]:
    needed = {
        name: model.name for entry in around.entries for model in entry.models for name in _modules(model, around)
    }
    missing = {name: model for name, model in needed.items() if find_spec(name) is None}
    for name, model in missing.items():
        yield fail("packages", f"{name} is missing, which {model} needs", _FIXES.get(name, _INSTALL))
    if not missing:
        yield ok("packages", ", ".join(sorted(needed)) or "none needed")


CHECKS = (server, numpy, packages)
THOROUGH_CHECKS = (server, server_runs, numpy, packages)


def _modules(model: Model, around: Surroundings) -> tuple[str, ...]:
    """What the model's stub imports besides numpy."""
    backend, parameters = model.config.backend, model.config.parameters
    if around.installation is not None and around.installation.has_official(backend):
        return ()
    if backend == "stages":
        return _STAGE_MODULES.get(parameters.get("stage", ""), ())
    if backend == "aoti":
        return ("torch",)
    if backend in _RUNTIMES and (runtime := parameters.get(_RUNTIME, backend)) in _RUNTIMES:
        return (runtime,)
    return ()
