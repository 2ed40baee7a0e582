"""A PyTorch module becomes an ONNX file that every ONNX Runtime since 1.19 loads. Knows no task."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx_ir
import torch

from trireme_export.assembly import Assembly
from trireme_export.errors import ExportError

OPSET = 18
MAX_IR_VERSION = 10  # what ONNX Runtime 1.19 takes
MAX_INLINE_BYTES = (1 << 31) - (1 << 20)  # protobuf cannot hold more; larger weights lie beside the model


def write_onnx(assembly: Assembly, path: Path) -> dict[str, int]:
    """Trace the network into a checked file at `path`; its versions, as a manifest states them.

    Raises:
        ExportError: the graph uses custom operators, is too new, or an output has a size it should not have.
    """
    program = trace(assembly)
    _tidy(program.model, assembly)
    program.save(str(path), external_data=_weight_bytes(assembly.network) > MAX_INLINE_BYTES)
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path, load_external_data=False)
    _check(model, assembly)
    return {"opset": OPSET, "ir_version": model.ir_version}


def trace(assembly: Assembly) -> torch.onnx.ONNXProgram:
    """The network as the exporter writes it, with its notes on where every node comes from."""
    any_size = torch.export.Dim.DYNAMIC
    shapes = {name: dict.fromkeys(dimensions, any_size) for name, dimensions in assembly.dynamic.items()}
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)  # misses torchvision
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # deprecations inside the exporter itself
        program = torch.onnx.export(
            assembly.network,
            kwargs=dict(assembly.example),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(assembly.example),
            output_names=[assembly.output],
            dynamic_shapes=shapes,
            verbose=False,
        )
    assert program is not None, "the dynamo exporter returns a program"
    return program


def _tidy(model: onnx_ir.Model, assembly: Assembly) -> None:
    """Give every value its own name, name the dimensions, and drop what tells of the machine that exported."""
    graph = model.graph
    public = {value.name for value in (*graph.inputs, *graph.outputs)}
    for node in graph.all_nodes():
        for value in node.outputs:
            if value.name in public and not value.is_graph_output():
                value.name = f"inner_{value.name}"
            value.metadata_props.clear()
        node.metadata_props.clear()
        node.doc_string = None
    graph.metadata_props.clear()
    model.metadata_props.clear()
    _name_dimensions(model, assembly.dynamic)


def _name_dimensions(model: onnx_ir.Model, dynamic: Mapping[str, Mapping[int, str]]) -> None:
    """The exporter's symbols (`s43`) become `batch`, `length`; a size that the data decide becomes `segments`."""
    names: dict[str, str] = {}
    for value in model.graph.inputs:
        assert value.name is not None, "an input has a name"
        assert value.shape is not None, "an input has a shape"
        for dimension, name in dynamic[value.name].items():
            names[str(value.shape[dimension])] = name
    for value in (*model.graph.inputs, *model.graph.outputs):
        assert value.shape is not None, "the exporter gives every output a shape"
        sizes = [size if isinstance(size, int) else names.get(str(size), "segments") for size in value.shape]
        value.shape = onnx_ir.Shape(sizes)


def _check(model: onnx.ModelProto, assembly: Assembly) -> None:
    domains = {node.domain for node in model.graph.node} | {function.domain for function in model.functions}
    if domains - {""}:
        raise ExportError(f"the graph needs operators of {', '.join(sorted(domains - {''}))}; only standard ones load")
    if model.ir_version > MAX_IR_VERSION:
        raise ExportError(f"the graph has IR version {model.ir_version}; at most {MAX_IR_VERSION} loads everywhere")
    for value in model.graph.output:
        dims = [d.dim_value or -1 for d in value.type.tensor_type.shape.dim]
        wanted = list(assembly.steps.steps[1].outputs[0].dims)
        if dims[1:] != wanted:
            raise ExportError(f"output {value.name} has dims {dims[1:]}; config.pbtxt will say {wanted}")


def _weight_bytes(network: torch.nn.Module) -> int:
    return sum(tensor.nbytes for tensor in network.state_dict().values())
