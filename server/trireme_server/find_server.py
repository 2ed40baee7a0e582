"""Where tritonserver is: in the official container, or in the wheel `nvidia-pytriton`. Imports nothing of PyTriton."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

CONTAINER = Path("/opt/tritonserver")
STUB = "triton_python_backend_stub"


class ServerNotFound(Exception):
    """There is no tritonserver, or not what it needs. The text says how to get it."""


@dataclass(frozen=True, kw_only=True)
class Installation:
    """The files of one tritonserver."""

    kind: Literal["wheel", "container"]
    binary: Path
    python_backend: Path  # holds libtriton_python.so and triton_python_backend_utils.py
    stub: Path  # the Python backend's process, for the version of the running interpreter
    libraries: tuple[Path, ...]  # what LD_LIBRARY_PATH must begin with
    official_backends: Path | None  # the folder of the C++ backends

    def has_official(self, backend: str) -> bool:
        """Whether Triton's own C++ backend of that name is there."""
        return (
            self.official_backends is not None
            and (self.official_backends / backend / f"libtriton_{backend}.so").exists()
        )

    def environment(self, base: dict[str, str], threads: int) -> dict[str, str]:
        """The environment of tritonserver and its stubs. Thread pools of numeric libraries get `threads`."""
        pools = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
        return {
            **base,
            **{pool: base.get(pool, str(threads)) for pool in pools},
            "LD_LIBRARY_PATH": os.pathsep.join([*map(str, self.libraries), *_present(base.get("LD_LIBRARY_PATH"))]),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), *_present(base.get("PATH"))]),
            "PYTHONUNBUFFERED": "1",
            "TOKENIZERS_PARALLELISM": base.get("TOKENIZERS_PARALLELISM", "true"),
        }


def find_installation(container: Path = CONTAINER) -> Installation:
    """The tritonserver to start: the container's if there is one, else the wheel's.

    Raises:
        ServerNotFound: there is none, or it cannot run Python models with this interpreter.
    """
    if (container / "bin" / "tritonserver").exists():
        return _container(container)
    spec = find_spec("pytriton")
    if spec is None or spec.origin is None:
        raise ServerNotFound("no tritonserver here: pip install 'trireme[server]' (it carries nvidia-pytriton)")
    return _wheel(Path(spec.origin).parent / "tritonserver")


def _container(root: Path) -> Installation:
    return Installation(
        kind="container",
        binary=root / "bin" / "tritonserver",
        python_backend=root / "backends" / "python",
        stub=root / "backends" / "python" / STUB,
        libraries=(root / "lib",),
        official_backends=root / "backends",
    )


def _wheel(root: Path) -> Installation:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = root / "python_backend_stubs" / version / STUB
    if not stub.exists():
        versions = ", ".join(sorted(path.name for path in stub.parents[1].iterdir()))
        raise ServerNotFound(f"this tritonserver has no stub for Python {version}: use one of {versions}")
    return Installation(
        kind="wheel",
        binary=root / "bin" / "tritonserver",
        python_backend=root / "backends" / "python",
        stub=stub,
        libraries=(root.parents[1] / "nvidia_pytriton.libs", libpython_folder()),
        official_backends=None,
    )


def libpython_folder() -> Path:
    """The folder of the shared library of the running interpreter.

    Raises:
        ServerNotFound: this interpreter was built without one.
    """
    name = str(sysconfig.get_config_var("INSTSONAME"))
    for folder in _library_folders():
        if name.endswith(".a"):
            break
        if (folder / name).exists():
            return folder
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    raise ServerNotFound(
        f"the shared library of Python {version} is missing, which Python models need: "
        f"apt-get install libpython{version}, or build Python with --enable-shared"
    )


def _library_folders() -> Iterator[Path]:
    yield Path(str(sysconfig.get_config_var("LIBDIR")))
    yield Path(str(sysconfig.get_config_var("LIBDIR")), str(sysconfig.get_config_var("MULTIARCH")))
    yield Path(sys.base_prefix, "lib")


def _present(value: str | None) -> list[str]:
    return [value] if value else []
