"""A user's own checkpoint in every precision and for every target: what is installed, and what is refused."""

import json

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trireme_export import int8_graph
from trireme_export.commands import export
from trireme_export.installed import manifest_path
from trireme_export.int8_values import QuantizedWeight, quantize_weight
from trireme_export.runtimes import OnnxRuntime
from trireme_network.run_on_openvino import OpenVino

from .conftest import run
from .tiny_image_models import TINY_IMAGE_FAMILIES, write_tiny_image_classifier
from .tiny_models import (
    TINY_FAMILIES,
    write_sentence_layout,
    write_tiny_classifier,
    write_tiny_encoder,
    write_tiny_token_classifier,
)

pytestmark = pytest.mark.usefixtures("one_thread")

KINDS = [("onnx", "fp16"), ("onnx", "int8"), *(("openvino", precision) for precision in ("bf16", "fp16", "int8"))]
TEXTS = ("The three banks of oars moved as one.", "a trireme was moved at dawn", "rowing")


def refused(*arguments):
    result = CliRunner().invoke(export, list(map(str, arguments)))
    assert result.exit_code != 0, result.output
    return result.exit_code, " ".join(result.stderr.split())


def manifest_of(repository):
    return json.loads(manifest_path(repository, "checkpoint").read_bytes())


def check_installed(repository, target, precision):
    """What the manifest says is so, and the stand-ins read the file, with every index guarded."""
    manifest = manifest_of(repository)
    assert (manifest["target"], manifest["precision"]) == (target, precision)
    files = {"onnx": ["model.onnx"], "openvino": ["model.bin", "model.xml"]}[target]
    folder = repository / "checkpoint_network" / "1"
    assert sorted(path.name for path in folder.iterdir()) == sorted(["manifest.json", *files])
    assert {f"checkpoint_network/1/{file}" for file in files} <= manifest["artifacts"].keys()
    OpenVino(folder / files[-1]).open_streams(1, 1)
    return folder / files[-1]


def quick_or_slow(*quick):
    return [
        pytest.param(family, target, precision, marks=() if (family, target, precision) in quick else pytest.mark.slow)
        for family in (*TINY_FAMILIES, *TINY_IMAGE_FAMILIES)
        for target, precision in KINDS
    ]


@pytest.mark.parametrize(
    ("family", "target", "precision"),
    quick_or_slow(("bert", "onnx", "int8"), ("vit", "openvino", "bf16")),
)
def test_a_classifier_is_verified_or_refused_for_what_it_differs_by(family, target, precision, folder, repository):
    (write_tiny_classifier if family in TINY_FAMILIES else write_tiny_image_classifier)(folder, family)
    arguments = (folder, "--repository", repository, "--to", target, "--precision", precision)
    result = CliRunner().invoke(export, list(map(str, arguments)))
    if result.exit_code == 0:
        check_installed(repository, target, precision)
        return
    said = " ".join(result.stderr.split())  # random networks of many layers make noise of any rounding
    assert ("differs from the original" in said) or ("from opset 22" in said and precision == "bf16"), said
    assert not (repository / "checkpoint_network").exists()


def test_an_int8_classifier_gives_the_librarys_scores_within_its_tolerance(folder, repository):
    write_tiny_classifier(folder, "bert")
    said = run(folder, "--repository", repository, "--precision", "int8")
    assert "14 products with weights are in int8, by" in said
    assert "same best label 100.00% (allowed 95%)" in said
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    runtime = OnnxRuntime(repository / "checkpoint_network/1/model.onnx")
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        with torch.inference_mode():
            expected = model(torch.tensor([ids])).logits[0].numpy()
        actual = runtime.run({"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64)})[0, 0]
        assert np.abs(actual - expected).max() < manifest_of(repository)["parity"]["tolerance"]["max_abs"] / 2


@pytest.mark.parametrize(
    ("target", "precision"),
    [pytest.param(*kind, marks=() if kind == ("openvino", "int8") else pytest.mark.slow) for kind in KINDS],
)
def test_a_sentence_encoder_keeps_directions_and_the_ranks_of_likeness(target, precision, folder, repository):
    write_tiny_encoder(folder, "mpnet")
    write_sentence_layout(folder, "mean", "Normalize")
    run(folder, "--repository", repository, "--to", target, "--precision", precision)
    check_installed(repository, target, precision)
    parity = manifest_of(repository)["parity"]
    assert parity["measured"]["min_cosine"] >= parity["tolerance"]["min_cosine"] > 0.9
    assert parity["measured"]["rank_correlation"] >= parity["tolerance"]["min_rank_correlation"] >= 0.9
    (embedding,) = (each for each in manifest_of(repository)["golden"][0]["outputs"] if each["name"] == "embedding")
    assert 0.9 < embedding["check"]["min_cosine"] <= 0.9999


@pytest.mark.slow
@pytest.mark.parametrize("kind", [("onnx", "fp16"), ("onnx", "int8"), ("openvino", "fp16")], ids="-".join)
@pytest.mark.parametrize("task", ["token-classification", "reranking"])
def test_other_tasks_of_texts_are_written_too(task, kind, folder, repository):
    if task == "reranking":
        write_tiny_classifier(folder, "bert", labels=("score",))
    else:
        write_tiny_token_classifier(folder, "bert")
    options = ("--repository", repository, "--task", task, "--to", kind[0], "--precision", kind[1])
    result = CliRunner().invoke(export, list(map(str, (folder, *options))))
    assert result.exit_code == 0 or "differs from the original" in result.stderr
    assert result.exit_code in {0, 5}


def test_weights_in_16_bits_take_half_the_room(folder, repository):
    write_tiny_classifier(folder, "distilbert", hidden_size=None, dim=256, hidden_dim=1024, n_heads=4)
    run(folder, "--repository", repository, "--name", "whole")
    run(folder, "--repository", repository, "--name", "half", "--precision", "fp16")
    sizes = {name: (repository / f"{name}_network/1/model.onnx").stat().st_size for name in ("whole", "half")}
    assert 0.5 < sizes["half"] / sizes["whole"] < 0.55


def test_a_number_beyond_fp16_keeps_its_nodes_in_fp32_and_is_said(folder, repository):
    write_tiny_classifier(folder, "bert", hidden_act="relu")
    weights = load_file(folder / "model.safetensors")
    inner = "bert.encoder.layer.0.intermediate.dense"
    for name in (f"{inner}.weight", f"{inner}.bias"):
        weights[name] *= 1e5
    weights["bert.encoder.layer.0.output.dense.weight"] /= 1e5
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    said = run(folder, "--repository", repository, "--precision", "fp16")
    assert "in fp32 stay node_" in said
    assert "(MatMul, up to " in said
    assert "beyond the range of fp16" in said
    check_installed(repository, "onnx", "fp16")


def test_a_network_of_which_little_fits_fp16_is_refused_with_its_nodes(folder, repository):
    write_tiny_classifier(folder, "bert")
    weights = load_file(folder / "model.safetensors")
    for name in weights:
        if "LayerNorm.weight" in name:
            weights[name] *= 1e5
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    code, said = refused(folder, "--repository", repository, "--precision", "fp16")
    assert code == 4
    assert "numbers beyond its range are in node_MatMul" in said
    assert "take bf16, which has the range of fp32" in said


def test_what_is_quantised_wrongly_is_not_installed(folder, repository, monkeypatch):
    def turned(weight, axis):
        right = quantize_weight(weight, axis)
        return QuantizedWeight(-right.values, right.scales)

    monkeypatch.setattr(int8_graph, "quantize_weight", turned)
    write_tiny_image_classifier(folder, "resnet")
    code, said = refused(folder, "--repository", repository, "--precision", "int8")
    assert code == 5
    assert "differs from the original" in said
    assert not repository.exists()


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--precision", "bf16"), 4, "ONNX Runtime computes no bf16 on CPUs"),
        (("--precision", "fp8"), 2, "'fp8' is not one of 'fp32', 'bf16', 'fp16', 'int8'"),
        (("--calibration", "."), 2, "--calibration goes with --precision int8"),
        (("--precision", "int8", "--calibration", "/no/such/file"), 2, "'/no/such/file' does not exist"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_read(options, code, text, folder, repository):
    assert refused("./no-folder-yet/", "--repository", repository, *options)[1].find("Traceback") == -1
    folder.mkdir()
    (folder / "config.json").write_text("{")
    assert refused(folder, "--repository", repository, *options)[0] == code
    assert text in refused(folder, "--repository", repository, *options)[1]
    assert not repository.exists()


def test_the_catalogue_says_it_for_its_own(repository):
    assert refused("embed", "--repository", repository, "--precision", "fp16")[0] == 2
    assert refused("embed", "--repository", repository, "--to", "openvino")[0] == 2


def test_convolutions_in_bf16_are_refused_since_no_opset_of_ours_has_them(folder, repository):
    write_tiny_image_classifier(folder, "resnet")
    code, said = refused(folder, "--repository", repository, "--to", "openvino", "--precision", "bf16")
    assert code == 4
    assert "for convolutions from opset 22 alone" in said
    assert "take fp16" in said


def test_ranges_come_from_a_users_own_texts(folder, repository, tmp_path):
    write_tiny_classifier(folder, "bert")
    texts = tmp_path / "texts.txt"
    texts.write_text("the three banks of oars\n\nrow row row\nas one at dawn\n")
    arguments = (folder, "--repository", repository, "--precision", "int8", "--calibration", texts)
    assert "by 3 samples of --calibration" in run(*arguments)
    assert "exported and intact" in run(*arguments)
    texts.write_text("another text\n")
    assert "exported from another checkpoint or by another version" in run(*arguments)


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"\xff\xfe", "it is not UTF-8"), (b"\n \n", "there is no text in it"), (b"no tab\n", "no tab")],
)
def test_texts_that_cannot_be_read_are_refused(content, text, folder, repository, tmp_path):
    write_tiny_classifier(folder, "bert", labels=("score",))
    (tmp_path / "texts").write_bytes(content)
    options = ("--task", "reranking", "--precision", "int8", "--calibration", tmp_path / "texts")
    code, said = refused(folder, "--repository", repository, *options)
    assert code == 2
    assert text in said


def test_images_that_cannot_be_read_are_refused(folder, repository, tmp_path):
    write_tiny_image_classifier(folder, "resnet")
    images = tmp_path / "images"
    images.mkdir()
    assert "there is no file in it" in refused(folder, "--precision", "int8", "--calibration", images)[1]
    (images / "one.jpg").write_text("no image")
    options = ("--repository", repository, "--precision", "int8", "--calibration", images)
    assert "one.jpg: it cannot be read as an image" in refused(folder, *options)[1]


def test_the_default_is_what_it_was(folder, repository):
    write_tiny_classifier(folder, "bert")
    run(folder, "--repository", repository)
    path = check_installed(repository, "onnx", "fp32")
    assert "exported and intact" in run(folder, "--repository", repository, "--to", "onnx", "--precision", "fp32")
    assert {each.data_type for each in onnx.load(path).graph.initializer} == {
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.INT64,
    }
