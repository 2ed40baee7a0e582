"""Whether this is a machine that compiled artifacts were made for. What meets another one may end its process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trireme_server.export_advice import export_anew
from trireme_server.machine_binding import FLAVOURS, AotiBinding, Binding, TensorRtBinding
from trireme_server.manifest import Manifest
from trireme_server.preflight import Finding, Surroundings, fail, ok
from trireme_server.repository import Entry

_CPUINFO = Path("/proc/cpuinfo")
_LIBRARIES = ("/usr/lib", "/usr/local", "/opt")  # where a container keeps the library of its official backend


def bindings(around: Surroundings) -> Iterator[Finding]:
    """Every entry whose manifest binds it to some kind of machine."""
    for entry in around.entries:
        manifest = around.manifests.get(entry.name)
        if manifest is None or manifest.binding is None:
            continue
        reasons = list(_why_not_here(manifest.binding, around))
        for reason in reasons:
            yield fail(entry.name, reason, _advice(entry, manifest, around))
        if not reasons:
            yield ok(entry.name, f"compiled for a machine like this one: {_in_words(manifest.binding)}")


CHECKS = (bindings,)


def _why_not_here(binding: Binding, around: Surroundings) -> Iterator[str]:
    if isinstance(binding, AotiBinding):
        return _why_not_on_this_cpu(binding)
    return _why_not_on_this_gpu(binding, around)


def _why_not_on_this_cpu(binding: AotiBinding) -> Iterator[str]:
    here = installed_version("torch")
    if here is not None and here.partition("+")[0] != binding.torch:  # that it is missing is another finding
        yield f"compiled for torch {binding.torch}, and here is {here}"
    missing = binding.cpu_flags - cpu_flags()
    if missing:
        yield f"compiled for a CPU with {', '.join(sorted(missing))}, which this one lacks"


def _why_not_on_this_gpu(binding: TensorRtBinding, around: Surroundings) -> Iterator[str]:
    here = gpu_capabilities() if around.machine.has_gpu else ()
    if not here:
        yield f"built for {binding}, and there is no GPU here"
        return
    if other := sorted(set(here).difference(binding.compute_capabilities)):
        yield f"built for {binding}, and a GPU here has {', '.join(other)}"
    if binding.flavour == "tensorrt_rtx" and _is_official(around):
        yield f"built for {binding}, which Triton's own backend does not read: it reads plans of TensorRT itself"
        return
    reader = tensorrt_version(binding.flavour)
    if reader is None:
        yield f"built for {binding}, and no {FLAVOURS[binding.flavour]} is installed here that would read it"
    elif not _same_version(reader, binding.version):
        yield f"built for {binding}, and here is {FLAVOURS[binding.flavour]} {reader}"


def _is_official(around: Surroundings) -> bool:
    return around.installation is not None and around.installation.has_official("tensorrt")


def _advice(entry: Entry, manifest: Manifest, around: Surroundings) -> str:
    if isinstance(manifest.binding, AotiBinding) or around.machine.has_gpu:
        return f"on this machine: {export_anew(entry, manifest)}"
    return f"serve it where such a GPU is, or write it for CPUs: {export_anew(entry, manifest, options=())}"


def _in_words(binding: Binding) -> str:
    return f"torch {binding.torch}" if isinstance(binding, AotiBinding) else str(binding)


def installed_version(package: str) -> str | None:
    """Of a Python package; None: it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def cpu_flags() -> set[str]:
    """What /proc/cpuinfo says of the first CPU."""
    lines = (line for line in _CPUINFO.read_text().splitlines() if line.startswith("flags"))
    return set(next(lines, "").partition(":")[2].split())


def gpu_capabilities() -> tuple[str, ...]:
    """The compute capability of every GPU ("8.9"); empty if nvidia-smi is not there or finds none."""
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(result.stdout.split()) if result.returncode == 0 else ()


def tensorrt_version(flavour: str) -> str | None:
    """Of the library that would read a plan: the official backend's in a container, else the Python package's."""
    name = {"tensorrt": "libnvinfer.so.*.*.*", "tensorrt_rtx": "libtensorrt_rtx.so.*.*.*"}[flavour]
    for folder in map(Path, _LIBRARIES):
        for library in sorted(folder.rglob(name)):
            return library.name.partition(".so.")[2]
    return installed_version(flavour)


def _same_version(here: str, built: str) -> bool:
    """A library's name has three numbers, a package's version a fourth."""
    count = min(here.count("."), built.count(".")) + 1
    return here.split(".")[:count] == built.split(".")[:count]
