"""Of a graph that answers differently, the layer is named at which it leaves its original, and no other."""

from importlib.util import find_spec

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from click.testing import CliRunner
from onnx import numpy_helper
from safetensors.numpy import load_file
from trireme_export import image_assembly
from trireme_export.catalogue import OwnModel
from trireme_export.checkpoint import open_checkpoint
from trireme_export.commands import export
from trireme_export.divergence import LayerValues, compare_layers
from trireme_export.divergence_report import NO_PLOT, sentence, write_report
from trireme_export.half_graph import halve
from trireme_export.image_network import ImageNetwork
from trireme_export.int8_graph import channel_axes, quantize
from trireme_export.layer_values import LayersAtWork, traced_layers
from trireme_export.runtimes import installed_runtimes
from trireme_export.tasks import assemble
from trireme_export.to_onnx import write_onnx
from trireme_export.tolerances import layer_share
from trireme_export.value_ranges import activations_of, ranges_of

from .tiny_image_models import write_tiny_image_classifier
from .tiny_models import write_tiny_classifier

pytestmark = pytest.mark.usefixtures("one_thread")


class Exported:
    """A tiny classifier, its tensors, and its graph in fp32 and another precision."""

    def __init__(self, folder, write, family, precision, rewrite):
        self.folder = folder
        write(folder / family, family)
        self.weights = load_file(folder / family / "model.safetensors")
        self.assembly = assemble(OwnModel(), open_checkpoint(family, folder / family), folder / "cache")
        self.traced = traced_layers(self.assembly)
        self.cases = {case.name: case for case in self.assembly.parity_cases()}
        for each in ("fp32", precision):
            (folder / each).mkdir()
        path = folder / "fp32" / "model.onnx"
        write_onnx(self.assembly, path)
        model = ir.load(path)
        rewrite(model, path, [case.inputs for case in self.cases.values()])
        ir.save(model, folder / precision / "model.onnx")

    def damaged(self, precision, damage):
        """Another graph, of which `damage` has changed something."""
        model = onnx.load(self.folder / precision / "model.onnx")
        damage(model.graph, self.weights)
        path = self.folder / "damaged.onnx"
        onnx.save(model, path)
        return path

    def divergence(self, path, case, precision="fp32", runtime=0):
        name = list(installed_runtimes(path))[runtime].name
        at_work = LayersAtWork(self.traced, self.assembly.layers, path, name, self.cases[case])
        return compare_layers(at_work, layer_share(precision)), at_work.left_out()


def in_int8(model, path, samples):
    quantize(model, activations_of(path, channel_axes(model.graph), samples), signed=False)


def in_fp16(model, path, samples):
    halve(model, "fp16", ranges_of(path, samples))


@pytest.fixture(scope="module")
def bert(tmp_path_factory, one_thread):
    return Exported(tmp_path_factory.mktemp("bert"), write_tiny_classifier, "bert", "int8", in_int8)


@pytest.fixture(scope="module")
def vit(tmp_path_factory, one_thread):
    return Exported(tmp_path_factory.mktemp("vit"), write_tiny_image_classifier, "vit", "fp16", in_fp16)


def scale(tensor, factor=1.5):
    """Multiply a weight, which the graph holds turned or not, and in whatever type."""

    def damage(graph, weights):
        wanted = weights[tensor]
        (found,) = (each for each in graph.initializer if _holds(numpy_helper.to_array(each), wanted))
        values = numpy_helper.to_array(found)
        found.CopyFrom(numpy_helper.from_array((values * factor).astype(values.dtype), found.name))

    return damage


def widen(tensor, epsilon=0.3):
    """Change the epsilon of the layer norm that has this weight."""

    def damage(graph, weights):
        values = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        norms = [node for node in graph.node if node.op_type == "LayerNormalization"]
        (norm,) = (node for node in norms if _holds(values[node.input[1]], weights[tensor]))
        (attribute,) = (each for each in norm.attribute if each.name == "epsilon")
        attribute.f = epsilon

    return damage


def _holds(array, wanted):
    return any(array.shape == each.shape and np.allclose(array, each, atol=2e-3) for each in (wanted, wanted.T))


KEY = "bert.encoder.layer.0.attention.self.key"
DENSE = "bert.encoder.layer.1.attention.output.dense"
NORM = "bert.encoder.layer.0.output.LayerNorm"


@pytest.mark.parametrize(
    ("damage", "layer", "case"),
    [
        (scale(f"{DENSE}.weight"), DENSE, "text 0 alone"),
        (scale(f"{DENSE}.weight"), DENSE, "all texts packed into one row"),
        (widen(f"{NORM}.weight"), NORM, "all texts, padded on the left"),
        (scale(f"{KEY}.bias"), KEY, "rows of one and of two segments"),
        (scale("classifier.weight"), "classifier", "text 3 alone"),
    ],
    ids=["weight", "packed", "epsilon", "bias", "head"],
)
def test_of_a_text_model_the_damaged_layer_is_named(bert, damage, layer, case):
    found, left_out = bert.divergence(bert.damaged("fp32", damage), case)
    assert found.first.name == layer
    assert found.first.of_inputs < 1e-5
    assert left_out == ()


def test_the_layer_is_named_in_the_runtime_that_was_refused(bert):
    path = bert.damaged("fp32", scale("bert.encoder.layer.1.output.dense.weight"))
    assert bert.divergence(path, "text 2 alone", runtime=1)[0].first.name == "bert.encoder.layer.1.output.dense"


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("case", ["image 0 alone", "three of noise, black, white"])
def test_of_an_image_model_the_damaged_layer_is_named_in_any_precision(vit, precision, case):
    path = vit.damaged(precision, scale("vit.encoder.layer.1.attention.output.dense.weight"))
    found, _ = vit.divergence(path, case, precision)
    assert found.first.name == "classifier.vit.layers.1.attention.o_proj"


def test_of_an_undamaged_graph_no_layer_is_named(bert, vit):
    for model, precision in ((bert, "fp32"), (bert, "int8"), (vit, "fp32"), (vit, "fp16")):
        for case in list(model.cases)[:3]:
            found, _ = model.divergence(model.folder / precision / "model.onnx", case, precision)
            assert len(found.layers) >= 25
            assert found.passing is None, (precision, case)


def test_a_case_leaves_nothing_beside_the_graph(bert):
    bert.divergence(bert.folder / "int8" / "model.onnx", "text 0 alone", "int8")
    assert [path.name for path in (bert.folder / "int8").iterdir()] == ["model.onnx"]


def layer(name, off, *reads):
    """Of two numbers, of which one is 1 and off by so much."""
    return LayerValues(name=name, actual=np.array([1 + off, 0.5]), expected=np.array([1, 0.5]), reads=reads)


def test_rounding_that_adds_up_names_no_layer_but_says_where_it_passes_the_limit():
    found = compare_layers([layer("a", 0.06), layer("b", 0.08, "a"), layer("c", 0.12, "b"), layer("d", 0.3, "c")], 0.1)
    assert found.first is None
    assert found.passing.name == "c"
    assert "grows from layer to layer, and passes the 10 % that int8 explains at c" in sentence(found, "int8")


def test_a_layer_is_not_named_for_what_it_reads():
    found = compare_layers([layer("a", 0), layer("b", 0.5, "a"), layer("c", 5.0, "b"), layer("d", 0.5, "a")], 0.1)
    assert found.first.name == "b"
    told = "b: off by 50 % of its largest number, where fp16 explains 10 %; what it reads agrees"
    assert sentence(found, "fp16").endswith(told)


def test_what_is_no_number_differs():
    assert compare_layers([layer("a", 0), layer("b", float("nan"), "a")], 0.1).first.name == "b"


class Careless(ImageNetwork):
    """What is exported is not the original: the conversion is not to blame, and no figure at the output tells."""

    def __init__(self, model, normalization):
        super().__init__(model, normalization)
        with torch.no_grad():
            model.classifier.vit.layers[1].attention.o_proj.weight.mul_(1.5)


def exported(folder, repository, report):
    """`trireme export --report`, of a tiny ViT."""
    write_tiny_image_classifier(folder, "vit")
    return CliRunner().invoke(export, [str(folder), "--repository", str(repository), "--report", str(report)])


def test_a_refusal_names_the_layer_and_writes_all_of_them(monkeypatch, folder, repository, tmp_path):
    monkeypatch.setattr(image_assembly, "ImageNetwork", Careless)
    told = exported(folder, repository, tmp_path / "report")
    assert told.exit_code == 5
    name = "classifier.vit.layers.1.attention.o_proj"
    assert "differs from the original: largest difference" in told.stderr
    assert f"; the first layer that differs is {name}: off by " in told.stderr
    assert f"> {name}" in told.stdout
    lines = (tmp_path / "report" / "checkpoint-layers.tsv").read_text().splitlines()
    assert len(lines) > 25
    assert any(line.startswith(f"{name}\t") for line in lines)
    assert not list(repository.glob("checkpoint*"))


def test_a_report_is_written_of_what_passes_too(folder, repository, tmp_path):
    told = exported(folder, repository, tmp_path / "report")
    assert told.exit_code == 0
    assert "the case farthest off: no layer differs by more than fp32 explains (0.01 %)" in told.stdout
    assert (tmp_path / "report" / "checkpoint-layers.tsv").exists()
    assert (repository / "checkpoint" / "config.pbtxt").exists()


def test_a_plot_is_drawn_where_matplotlib_is_and_else_it_is_said_how_to_get_it(tmp_path):
    found = compare_layers([layer("a", 0), layer("b", 0.5, "a")], 0.1)
    *_, told = write_report(found, "title", tmp_path, "name")
    plot = tmp_path / "name-layers.png"
    if find_spec("matplotlib"):
        assert told == f"plot: {plot}"
        assert plot.read_bytes().startswith(b"\x89PNG")
    else:
        assert told == NO_PLOT
        assert not plot.exists()
