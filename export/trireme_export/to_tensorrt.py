"""An ONNX graph becomes a TensorRT plan. The one module that knows TensorRT, in its three flavours.

`tensorrt` 10 and 11 build for the GPU of this machine; `tensorrt_rtx` builds on any CPU, for the compute capabilities
that are named. All three are asked the same way: for a strongly typed network, whose types are those of the graph. In
11 and RTX there is no other; of the builder's own precision flags, which only 10 has, none is used.

Source: https://docs.nvidia.com/deeplearning/tensorrt-rtx/latest/, "AOT build", and the Python API of TensorRT.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trireme_export.errors import ExportError

RTX = "tensorrt_rtx"
NAMES = {"tensorrt": "TensorRT", RTX: "TensorRT-RTX"}
_LAYERS = ("Layers:\n", "Engine Layer Information:\n")  # how the builder's log begins to list an engine's layers


@dataclass(frozen=True)
class Shapes:
    """What an optimisation profile allows one input, and what it is tuned for."""

    least: tuple[int, ...]
    usual: tuple[int, ...]
    most: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A serialized engine."""

    content: bytes
    layers: tuple[str, ...]  # of the engine, a line each, in the library's own words


@dataclass(frozen=True)
class UnsupportedNode:
    """A node of the graph that TensorRT has nothing for."""

    name: str
    operator: str


class GraphNotTaken(Exception):
    """The graph has such nodes; empty: the parser says no more than `reason`."""

    def __init__(self, nodes: tuple[UnsupportedNode, ...], reason: str) -> None:
        super().__init__(reason)
        self.nodes = nodes


class Builder:
    """One flavour of TensorRT. Without `capabilities` ("8.9") it builds for the GPU that is here.

    Raises:
        ExportError: the flavour is not installed, or has no such capability.
    """

    def __init__(self, capabilities: tuple[str, ...] = ()) -> None:
        self.flavour = RTX if capabilities else "tensorrt"
        self._trt = _module(self.flavour)
        self.version: str = self._trt.__version__
        self._targets = [self._capability(each) for each in capabilities]

    @property
    def name(self) -> str:
        """For people: TensorRT-RTX 1.7.1.116."""
        return f"{NAMES[self.flavour]} {self.version}"

    def build(self, graph: Path, profile: Mapping[str, Shapes], *, tf32: bool) -> Plan:
        """The plan of the ONNX file `graph`; `profile` has the shapes of every input.

        `tf32`: products of fp32 numbers may be rounded to ten bits of mantissa.

        Raises:
            GraphNotTaken: the graph has nodes that this version has nothing for.
            ExportError: the engine cannot be built; the text has the library's own words.
        """
        log = _logger(self._trt)
        builder = self._created(self._trt.Builder, log)
        network = builder.create_network(self._strongly_typed())
        parser = self._trt.OnnxParser(network, log)
        if not parser.parse_from_file(str(graph)):
            raise GraphNotTaken(*_complaints(parser, graph))
        config = self._config(builder, profile, tf32=tf32)
        engine = builder.build_serialized_network(network, config)
        if engine is None:
            raise ExportError(f"{self.name} cannot build the engine: {'; '.join(log.errors) or 'it does not say why'}")
        return Plan(content=bytes(engine), layers=self._inspected(engine, log) or _listed(log.texts))

    def _created(self, create: Any, log: Any) -> Any:
        """TensorRT has no builder without a GPU, which RTX alone can do without."""
        try:
            return create(log)
        except (RuntimeError, TypeError) as error:
            raise ExportError(
                f"{self.name} needs a GPU here, and finds none; to build without one name the GPUs: "
                "--compute-capability 8.9"
            ) from error

    def _strongly_typed(self) -> int:
        """The flag of RTX and of TensorRT 10; later versions know no other network."""
        flag = getattr(self._trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        return 0 if flag is None else 1 << int(flag)

    def _config(self, builder: Any, profile: Mapping[str, Shapes], *, tf32: bool) -> Any:
        trt = self._trt
        config = builder.create_builder_config()
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED  # the layers keep their names
        if not tf32:
            config.clear_flag(trt.BuilderFlag.TF32)  # it is set from the start
        allowed = builder.create_optimization_profile()
        for name, shapes in profile.items():
            allowed.set_shape(name, shapes.least, shapes.usual, shapes.most)
        config.add_optimization_profile(allowed)
        if self._targets:
            config.num_compute_capabilities = len(self._targets)
            for place, target in enumerate(self._targets):
                config.set_compute_capability(target, place)
        return config

    def _capability(self, name: str) -> Any:
        known = {
            member[2:-1] + "." + member[-1]: member for member in dir(self._trt.ComputeCapability) if _is_sm(member)
        }
        if name not in known:
            raise ExportError(
                f"--compute-capability {name}: {self.name} builds for {', '.join(sorted(known, key=float))}"
            )
        return getattr(self._trt.ComputeCapability, known[name])

    def _inspected(self, engine: Any, log: Any) -> tuple[str, ...]:
        """The layers as the engine's inspector has them, which needs the GPU; else nothing."""
        if self.flavour == RTX:
            return ()
        loaded = self._trt.Runtime(log).deserialize_cuda_engine(engine)
        if loaded is None:
            return ()
        text = loaded.create_engine_inspector().get_engine_information(self._trt.LayerInformationFormat.JSON)
        return tuple(json.dumps(layer) for layer in json.loads(text)["Layers"])


def _module(flavour: str) -> Any:
    if find_spec(flavour) is None:
        advice = {
            RTX: "pip install 'trireme[tensorrt-rtx]'",
            "tensorrt": "pip install tensorrt, on the machine with the GPU; to build without one name the GPUs: "
            "--compute-capability 8.9",
        }
        raise ExportError(f"{NAMES[flavour]} is not installed: {advice[flavour]}")
    return import_module(flavour)


def _is_sm(member: str) -> bool:
    return member.startswith("SM") and member[2:].isdigit()


def _logger(trt: Any) -> Any:
    """A logger of that module which keeps what is said: its class must be one of the module's own."""

    class Kept(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []
            self.texts: list[str] = []

        def log(self, severity: Any, text: str) -> None:
            if severity in {trt.ILogger.Severity.ERROR, trt.ILogger.Severity.INTERNAL_ERROR}:
                self.errors.append(text)
            elif text.startswith(_LAYERS):
                self.texts.append(text)

    return Kept()


def _listed(texts: list[str]) -> tuple[str, ...]:
    """The layers end where the tensors of the engine begin."""
    lines = (line for text in texts for line in text.partition("\nI/O Tensors:")[0].splitlines()[1:])
    return tuple(line for line in lines if line)


def _complaints(parser: Any, graph: Path) -> tuple[tuple[UnsupportedNode, ...], str]:
    """Parsing ends at the first; asking which parts are supported finds the others."""
    reason = parser.get_error(0).desc() if parser.num_errors else "it does not say why"
    found = dict.fromkeys(_unsupported(parser))
    parser.clear_errors()
    parser.supports_model_v2(graph.read_bytes(), str(graph))
    return tuple(found | dict.fromkeys(_unsupported(parser))), reason


def _unsupported(parser: Any) -> Iterator[UnsupportedNode]:
    for number in range(parser.num_errors):
        error = parser.get_error(number)
        if error.node() >= 0:
            yield UnsupportedNode(error.node_name(), error.node_operator())
