"""`--to tensorrt`: real plans are built on this CPU with TensorRT-RTX, and what cannot be built is named."""

import json
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from trireme_export import tensorrt_artifact, to_tensorrt
from trireme_export.commands import export
from trireme_export.errors import CheckpointRefused, ExportError
from trireme_export.installed import manifest_path
from trireme_export.kinds import ArtifactKind
from trireme_export.source_lines import read_source_line
from trireme_export.steps import TensorSpec
from trireme_export.tensorrt_graph import adapt_to_tensorrt
from trireme_export.to_tensorrt import Builder, Shapes

from .conftest import run
from .tiny_image_models import write_tiny_image_classifier
from .tiny_models import write_tiny_classifier

needs_rtx = pytest.mark.skipif(
    find_spec("tensorrt_rtx") is None, reason="needs TensorRT-RTX: `make test-tensorrt-rtx` installs it"
)
needs_gpu = pytest.mark.skipif(not list(Path("/dev").glob("nvidia[0-9]*")), reason="needs a GPU")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """What the terminal said, the repository of a tiny classifier's plan, and its manifest."""
    folder = tmp_path_factory.mktemp("tensorrt") / "checkpoint"
    write_tiny_classifier(folder, "bert")
    repository = folder.parent / "repository"
    said = run(folder, "--to", "tensorrt", "--compute-capability", "8.9,12.0", "--repository", repository)
    return said, repository, json.loads(manifest_path(repository, "checkpoint").read_bytes())


@needs_rtx
def test_the_plan_is_bound_to_library_and_gpus(exported):
    _, _, manifest = exported
    assert manifest["target"] == "tensorrt"
    bound = manifest["tensorrt"]
    assert (bound["flavour"], bound["compute_capabilities"]) == ("tensorrt_rtx", ["8.9", "12.0"])
    assert bound["version"].startswith("1.7.1")
    assert {"checkpoint_network/1/model.plan", "checkpoint_network/1/layers.txt"} <= manifest["artifacts"].keys()


@needs_rtx
def test_the_profile_allows_every_batch_and_every_row_that_the_preprocessing_makes(exported):
    _, repository, manifest = exported
    (profile,) = manifest["tensorrt"]["profiles"]
    shapes = {"least": [1, 1], "usual": [8, 128], "most": [64, 31 * 66]}
    assert profile == {"input_ids": shapes, "attention_mask": shapes}
    assert manifest["dynamic_ranges"]["length"] == [1, 31 * 66]
    config = (repository / "checkpoint_preprocess" / "config.pbtxt").read_text()
    assert 'key: "max_windows"\n  value {\n    string_value: "31"' in config


@needs_rtx
def test_the_layers_are_listed_with_the_nodes_that_they_came_from(exported):
    _, repository, manifest = exported
    layers = (repository / "checkpoint_network" / "1" / "layers.txt").read_text().splitlines()
    assert len(layers) == manifest["tensorrt"]["layers"] > 10
    assert all(layer.startswith("Name: ") for layer in layers)
    assert any("[ONNX Layer: node_embedding]" in layer for layer in layers)


@needs_rtx
def test_it_is_said_plainly_that_the_plan_has_not_been_run(exported):
    said, _, manifest = exported
    assert "its numbers are unproven until `trireme verify` has asked it on the GPU" in " ".join(said.split())
    assert all(name.endswith("(the graph, not the plan)") for name in manifest["parity"]["runtimes"])
    assert manifest["tensorrt"]["plan_was_run"] is False


@needs_rtx
def test_the_config_is_that_of_the_official_backend(exported):
    _, repository, _ = exported
    config = (repository / "checkpoint_network" / "config.pbtxt").read_text()
    assert 'backend: "tensorrt"' in config
    assert "max_batch_size: 64" in config
    assert "trireme." not in config
    assert "gpu_execution_accelerator" not in config


@needs_rtx
@pytest.mark.parametrize("family", ["vit", pytest.param("swin", marks=pytest.mark.slow)])
def test_an_image_network_is_built_though_bytes_may_only_be_cast(family, folder, repository):
    write_tiny_image_classifier(folder, family)
    said = run(folder, "--to", "tensorrt", "--compute-capability", "8.9", "--repository", repository)
    assert "for compute capability 8.9:" in " ".join(said.split())


@needs_rtx
@pytest.mark.parametrize("precision", ["fp16", pytest.param("int8", marks=pytest.mark.slow)])
def test_the_precision_of_the_graph_is_that_of_the_plan(precision, folder, repository):
    write_tiny_classifier(folder, "bert")
    asked = ("--precision", precision, "--compute-capability", "8.9", "--repository", repository)
    run(folder, "--to", "tensorrt", *asked)
    layers = (repository / "checkpoint_network" / "1" / "layers.txt").read_text()
    assert f"Datatype: {'Half' if precision == 'fp16' else 'Int8'}" in layers


class Determinant(nn.Module):
    """What no TensorRT computes, behind what all do."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, pixels):
        return torch.linalg.det(self.inner(pixels)).unsqueeze(1)


class Product(nn.Module):
    """One matrix product, of fp32 numbers."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 1)

    def forward(self, pixels):
        return self.inner(pixels.flatten(1))


def assembly_of(network, *shape):
    """As much of an assembly as writing takes, for a network from `pixels` (batch, *shape) to `logits` (batch, 1)."""
    steps = (None, SimpleNamespace(outputs=(TensorSpec(name="logits", data_type="TYPE_FP32", dims=(1,)),)), None)
    return SimpleNamespace(
        network=network.eval(),
        example={"pixels": torch.rand(2, *shape)},
        dynamic={"pixels": {0: "batch"}},
        ranges={"batch": (1, 64)},
        output="logits",
        steps=SimpleNamespace(steps=steps),
    )


@needs_rtx
def test_an_operator_that_it_lacks_is_named_with_its_node_and_source_line(tmp_path):
    kind = ArtifactKind(target="tensorrt", compute_capabilities=("8.9",))
    with pytest.raises(CheckpointRefused) as refusal:
        tensorrt_artifact.write(assembly_of(Determinant(), 4, 4), kind, tmp_path)
    text = str(refusal.value)
    assert "has nothing for these operators of the network:\n  Det (" in text
    assert "test_tensorrt.py:" in text
    assert "return torch.linalg.det(self.inner(pixels))" in text


@needs_rtx
def test_what_the_library_cannot_build_is_told_in_its_own_words(tmp_path):
    kind = ArtifactKind(target="tensorrt", compute_capabilities=("7.5",))
    with pytest.raises(ExportError, match="FP32 GEMM is not supported"):
        tensorrt_artifact.write(assembly_of(Product(), 4, 4), kind, tmp_path)


@needs_rtx
def test_a_gpu_that_it_does_not_build_for_is_refused_with_those_that_it_does():
    with pytest.raises(ExportError, match=r"--compute-capability 9\.0: .* builds for 7\.5, 8\.0, 8\.6, 8\.9, 12\.0"):
        Builder(("9.0",))


@pytest.mark.gpu
@needs_gpu
@needs_rtx
def test_a_plan_is_loaded_by_a_gpu_with_its_profile(tmp_path):
    import tensorrt_rtx

    kind = ArtifactKind(target="tensorrt", compute_capabilities=tensorrt_artifact._capabilities_here())
    tensorrt_artifact.write(assembly_of(Product(), 4, 4), kind, tmp_path)
    runtime = tensorrt_rtx.Runtime(tensorrt_rtx.Logger())
    engine = runtime.deserialize_cuda_engine((tmp_path / "model.plan").read_bytes())
    assert engine is not None
    assert [tuple(shape) for shape in engine.get_tensor_profile_shape("pixels", 0)] == [
        (1, 4, 4),
        (8, 4, 4),
        (64, 4, 4),
    ]


def test_a_gpu_that_nvidia_smi_does_not_name_is_told(tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ExportError, match="nvidia-smi names none"):
        tensorrt_artifact._capabilities_here()


@pytest.mark.parametrize(
    ("capabilities", "advice"),
    [(("8.9",), r"pip install 'trireme\[tensorrt-rtx\]'"), ((), "name the GPUs: --compute-capability 8.9")],
)
def test_a_library_that_is_missing_is_named_with_how_to_get_it(monkeypatch, capabilities, advice):
    monkeypatch.setattr(to_tensorrt, "find_spec", lambda name: None)
    with pytest.raises(ExportError, match=f"is not installed: .*{advice}"):
        Builder(capabilities)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--compute-capability", "8.9"], "goes with --to tensorrt"),
        (["--to", "tensorrt", "--compute-capability", "sm89"], "is not like 8.9 or 8.9,12.0"),
    ],
)
def test_a_compute_capability_that_makes_no_sense_is_a_usage_error(folder, options, complaint):
    folder.mkdir()
    result = CliRunner().invoke(export, [str(folder), *options])
    assert result.exit_code == 2
    assert complaint in result.stderr


class FakeLibrary:
    """As much of a TensorRT module as a build touches; it notes what it was asked for."""

    __version__ = "11.0.0"

    def __init__(self, *, flags):
        self.asked = []
        self.NetworkDefinitionCreationFlag = SimpleNamespace(**flags)
        self.BuilderFlag = SimpleNamespace(TF32="tf32")
        self.ProfilingVerbosity = SimpleNamespace(DETAILED="detailed")
        self.ILogger = type("ILogger", (), {"Severity": SimpleNamespace(ERROR=1, INTERNAL_ERROR=0)})
        self.LayerInformationFormat = SimpleNamespace(JSON="json")

    def Builder(self, log):
        config = SimpleNamespace(
            clear_flag=lambda flag: self.asked.append(f"clear {flag}"), add_optimization_profile=lambda profile: 0
        )
        return SimpleNamespace(
            create_network=lambda flags: self.asked.append(f"network {flags}"),
            create_builder_config=lambda: config,
            create_optimization_profile=lambda: SimpleNamespace(
                set_shape=lambda name, *shapes: self.asked.append(f"{name} {shapes}")
            ),
            build_serialized_network=lambda network, config: b"plan",
        )

    def OnnxParser(self, network, log):
        return SimpleNamespace(parse_from_file=lambda path: True)

    def Runtime(self, log):
        information = json.dumps({"Layers": ["product"]})
        inspector = SimpleNamespace(get_engine_information=lambda form: information)
        engine = SimpleNamespace(create_engine_inspector=lambda: inspector)
        return SimpleNamespace(deserialize_cuda_engine=lambda plan: engine)


@pytest.mark.parametrize(
    ("flags", "network"), [({"STRONGLY_TYPED": 1}, "network 2"), ({}, "network 0")], ids=["10", "11"]
)
def test_every_flavour_is_asked_for_a_strongly_typed_network_without_tf32(monkeypatch, flags, network):
    library = FakeLibrary(flags=flags)
    monkeypatch.setattr(to_tensorrt, "_module", lambda flavour: library)
    plan = Builder().build(Path("model.onnx"), {"x": Shapes((1,), (8,), (64,))}, tf32=False)
    assert library.asked == [network, "clear tf32", "x ((1,), (8,), (64,))"]
    assert plan.content == b"plan"
    assert plan.layers == ('"product"',)


def bytes_graph(path, *, casts):
    """(batch, 2, 3) of bytes, moved, and cast or not."""
    nodes = [helper.make_node("Transpose", ["pixels"], ["moved"], "move", perm=[0, 2, 1])]
    nodes.append(helper.make_node(*(("Cast", ["moved"], ["y"]) if casts else ("Identity", ["moved"], ["y"])), to=1))
    if not casts:
        del nodes[1].attribute[:]
    kind = TensorProto.FLOAT if casts else TensorProto.UINT8
    graph = helper.make_graph(
        nodes,
        "bytes",
        [helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", 2, 3])],
        [helper.make_tensor_value_info("y", kind, ["batch", 3, 2])],
        value_info=[helper.make_tensor_value_info("moved", TensorProto.UINT8, ["batch", 3, 2])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)


@pytest.mark.parametrize(("casts", "order"), [(True, ["Cast", "Transpose"]), (False, ["Transpose", "Identity"])])
def test_bytes_are_cast_before_they_are_moved_and_stay_the_same(tmp_path, casts, order):
    path, pixels = tmp_path / "model.onnx", np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    bytes_graph(path, casts=casts)
    adapt_to_tensorrt(path)
    assert [node.op_type for node in onnx.load(path).graph.node] == order
    (answer,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"pixels": pixels})
    np.testing.assert_array_equal(answer, pixels.transpose(0, 2, 1))


def test_a_quantized_bias_becomes_what_it_stands_for(tmp_path):
    path, given = tmp_path / "model.onnx", np.ones((2, 3), np.float32)
    integers, scales = np.array([10, -20, 30], np.int32), np.array([0.5, 0.25, 0.1], np.float32)
    constants = {"q": integers, "scale": scales, "zero": np.zeros(3, np.int32)}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["bias"], "dequantize", axis=0),
        helper.make_node("Add", ["pixels", "bias"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "bias",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
        value_info=[helper.make_tensor_value_info("bias", TensorProto.FLOAT, [3])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    adapt_to_tensorrt(path)
    written = onnx.load(path).graph
    assert [node.op_type for node in written.node] == ["Add"]
    assert [constant.name for constant in written.initializer] == ["bias_fp32"]
    (answer,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"pixels": given})
    np.testing.assert_allclose(answer, given + integers * scales)


def test_a_source_line_is_the_innermost_of_the_stack():
    frames = [
        'File "a.py", line 3, in forward',
        "  self.w(x)",
        'File "b.py", line 134, in forward',
        "  return F.linear(x)",
    ]
    notes = {
        "pkg.torch.onnx.stack_trace": "\n".join(frames),
        "pkg.torch.onnx.name_scopes": "['', 'encoder.w', 'linear']",
    }
    assert str(read_source_line(notes)) == "b.py:134, in the module encoder.w: return F.linear(x)"
    assert read_source_line({}) is None
