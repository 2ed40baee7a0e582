"""Runs the libraries of AOTInductor packages on CPUs. The one module here that knows torch.

The library is loaded by the class under `torch._inductor.aoti_load_package`, which would import the whole compiler and
leave its copy of the package behind when the process is killed.
"""

from __future__ import annotations

import tempfile
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from trireme_triton.tensors import Array, Inputs, Outputs

from trireme_network.aoti_package import Package, Table
from trireme_network.graph import Graph, RunFailed, Stream
from trireme_network.model_config import ConfigRefused


class AotInductor:
    """A package's library, loaded once, with its weights. At most `runs` go side by side.

    Raises:
        ConfigRefused: it cannot be loaded.
    """

    def __init__(self, package: Package, *, runs: int) -> None:
        self.graph: Graph = package.graph
        self._tables = package.tables
        self._library = _load(package, runs)

    def open_streams(self, count: int, threads_each: int) -> list[Stream]:
        return [partial(self._run, threads_each) for _ in range(count)]

    def _run(self, threads: int, inputs: Inputs) -> Outputs:
        """In the calling thread and `threads - 1` others, which OpenMP keeps for each calling thread."""
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        tensors = [_tensor(inputs[tensor.name]) for tensor in self.graph.inputs]
        try:
            *outputs, misses = self._library.run(tensors)
        except RuntimeError as error:
            raise RunFailed(" ".join(str(error).split())) from error
        for table, count in zip(self._tables, misses.tolist(), strict=True):
            if count:
                raise RunFailed(_missed(table))
        named = zip(self.graph.outputs, outputs, strict=True)
        return {tensor.name: values.numpy() for tensor, values in named}


def _load(package: Package, runs: int) -> Any:
    """The file may go once the library is mapped: so nothing is left of a process that is killed."""
    try:
        with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(package.file) as archive:
            library = Path(scratch, Path(package.library).name)
            library.write_bytes(archive.read(package.library))
            return torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), runs)
    except (OSError, RuntimeError, zipfile.BadZipFile) as error:
        raise ConfigRefused(f"{package.file} cannot be loaded: {' '.join(str(error).split())}") from error


def _tensor(values: Array) -> torch.Tensor:
    """Of the same memory, if torch can use it: contiguous and writable."""
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))


def _missed(table: Table) -> str:
    if table.input is None:
        return f"a computed index is outside its table of {table.rows} rows; is the text too long?"
    return f"input {table.input!r} holds an index that is outside its table of {table.rows} rows"
