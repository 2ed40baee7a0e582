"""A PyTorch module becomes an AOTInductor package: machine code for this kind of CPU, with the weights. Knows no task.

Source: https://docs.pytorch.org/docs/stable/torch.compiler_aot_inductor.html
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from trireme_export.assembly import Assembly
from trireme_export.errors import ExportError
from trireme_export.lookup_guard import GuardedNetwork, check_all_guarded
from trireme_export.steps import Step

# By PyTorch's name of what this CPU has: what g++ may use (the levels of the x86-64 psABI, as /proc/cpuinfo calls
# their instructions), and the bits of a vector.
_AVX2 = ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe")
_LEVELS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "AVX2": ("x86-64-v3", 256, _AVX2),
    "AVX512": ("x86-64-v4", 512, (*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
}
_AS_CPUINFO = {"avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16"}  # g++'s options, and "-" for "_"


def write_package(assembly: Assembly, path: Path) -> dict[str, object]:
    """Compile the network into `path`; what it is bound to, as a manifest states it.

    Raises:
        ExportError: there is no compiler, or this CPU is none that it compiles for.
    """
    level = _level()
    compiler = _compiler()
    network = GuardedNetwork(assembly.network, list(assembly.example)).eval()
    program = _trace(network, assembly)
    check_all_guarded(program)
    options = {
        "cpp.march": level[0],
        "cpp.simdlen": level[1],
        "cpp.vec_isa_ok": True,  # PyTorch has found out; asking g++ too takes half a minute
        "cpp.dynamic_threads": True,  # as many as the server allows, not as many as there are here
        "aot_inductor.package": True,
        "aot_inductor.enable_line_tables": False,
        "aot_inductor.precompile_headers": False,
    }
    bound = {"torch": torch.__version__.partition("+")[0], "cpu_flags": sorted({*level[2], *_vector_flags(options)})}
    description = {**_tensors(assembly.steps.steps[1]), "tables": list(map(asdict, network.lookups)), **bound}
    options["aot_inductor.metadata"] = {"trireme": json.dumps(description)}
    _compile(program, list(assembly.example.values()), options, path)
    return {"aoti": {**bound, "compiler": compiler}}


def _level() -> tuple[str, int, tuple[str, ...]]:
    capability = torch.backends.cpu.get_cpu_capability()
    if capability not in _LEVELS:
        raise ExportError(f"--to aoti compiles for x86-64 CPUs with AVX2 or AVX-512; this one has {capability}")
    return _LEVELS[capability]


def _compiler() -> str:
    """The name of the C++ compiler that AOTInductor will call."""
    name = os.environ.get("CXX", "g++")
    if shutil.which(name) is None:
        raise ExportError(f"--to aoti needs a C++ compiler, and {name!r} is not there: apt-get install g++, or set CXX")
    return name


def _vector_flags(options: dict[str, Any]) -> set[str]:
    """The instructions that AOTInductor itself writes, beyond the level of the CPU."""
    from torch._inductor import config, cpu_vec_isa

    with config.patch({key: options[key] for key in ("cpp.simdlen", "cpp.vec_isa_ok")}):
        names = cpu_vec_isa.pick_vec_isa().build_arch_flags().split()
    plain = (name.removeprefix("-m").replace("-", "_") for name in names)
    return {_AS_CPUINFO.get(name, name) for name in plain}


def _trace(network: GuardedNetwork, assembly: Assembly) -> torch.export.ExportedProgram:
    any_size = torch.export.Dim.DYNAMIC
    shapes = tuple(dict.fromkeys(assembly.dynamic[name], any_size) for name in assembly.example)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # deprecations inside the exporter itself
        program = torch.export.export(network, tuple(assembly.example.values()), dynamic_shapes=(shapes,), strict=False)
        decomposed: torch.export.ExportedProgram = program.run_decompositions({torch.ops.aten.matmul.default: _product})
    return decomposed


def _product(left: Tensor, right: Tensor) -> Any:
    """Of three-dimensional arrays, one of a size that the data decide: the compiler cannot ask whether that is 1."""
    if left.dim() == right.dim() == 3 and free_unbacked_symbols(left.shape):
        return (left.unsqueeze(3) * right.unsqueeze(1)).sum(dim=2)
    return NotImplemented


def _compile(
    program: torch.export.ExportedProgram, example: Sequence[Tensor], options: dict[str, Any], path: Path
) -> None:
    """The package holds the library and its description, without the sources, which tell of this machine."""
    from torch._inductor import aot_compile
    from torch._inductor.package.package import package_aoti
    from torch._inductor.utils import fresh_cache

    module: Any = program.module(check_guards=False)
    with tempfile.TemporaryDirectory() as scratch, fresh_cache(dir=scratch), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside the compiler itself
        files: Any = aot_compile(module, tuple(example), options=options)
        package_aoti(str(path), [file for file in files if not file.endswith(".cpp")])


def _tensors(network: Step) -> dict[str, list[dict[str, object]]]:
    """The network's inputs and outputs as its backend will find them, with the batch dimension."""
    return {
        key: [{"name": spec.name, "data_type": spec.data_type, "shape": [-1, *spec.dims]} for spec in specs]
        for key, specs in (("inputs", network.inputs), ("outputs", network.outputs))
    }
