"""From a checkpoint to an entry, end to end on a tiny one: verified, installed, reproducible, or refused."""

import io
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch
from rich.console import Console
from trireme_export import text_entry
from trireme_export.errors import CheckpointRefused, InstallFailed, ParityFailed
from trireme_export.exporter import ExportOptions, export_entry
from trireme_export.files import hash_folder, sha256_of
from trireme_export.install import staging_folder
from trireme_export.installed import manifest_path, why_export
from trireme_export.parity import compare
from trireme_export.progress import Reporter
from trireme_export.recipe import recipe_of
from trireme_export.rollback import report_versions, roll_back
from trireme_export.runtimes import installed_runtimes
from trireme_export.text_assembly import TOLERANCE
from trireme_export.text_network import TextNetwork

from .conftest import tiny_entry, write_tiny_checkpoint


@pytest.fixture(scope="module")
def checkpoint_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_tiny_checkpoint(folder)
    return folder


@pytest.fixture(scope="module")
def entry(checkpoint_folder):
    return tiny_entry(checkpoint_folder)


@pytest.fixture(scope="module")
def exported(entry, tmp_path_factory):
    """A repository with the tiny entry."""
    repository = tmp_path_factory.mktemp("repository")
    run(entry, repository)
    return repository


def run(entry, repository, **options):
    said = io.StringIO()
    options = ExportOptions(repository=repository, cache=repository / "cache", **options)
    export_entry(entry, options, Reporter(Console(file=said, width=200)))
    return said.getvalue()


@pytest.fixture(scope="module")
def manifest(exported):
    return json.loads(manifest_path(exported, "tiny").read_bytes())


def test_of_two_exports_the_later_reads_nothing(tiny_folder, tmp_path):
    (tiny_folder / "config.json").write_text("{")  # whoever read it would refuse it
    repository = tmp_path / "repository"
    with staging_folder(repository), pytest.raises(InstallFailed, match="another export is writing to it"):
        run(tiny_entry(tiny_folder), repository)
    with pytest.raises(CheckpointRefused):
        run(tiny_entry(tiny_folder), repository)
    assert not repository.exists()


def test_an_exported_entry_is_intact_and_is_not_exported_again(entry, exported):
    assert why_export(exported, "tiny", recipe_of(entry)) is None
    before = manifest_path(exported, "tiny").stat().st_mtime_ns
    assert "exported and intact" in run(entry, exported)
    assert manifest_path(exported, "tiny").stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_changed_local_checkpoint_is_a_new_version_and_what_was_rolled_back_is_not_made_again(tmp_path):
    checkpoint, repository = tmp_path / "checkpoint", tmp_path / "repository"
    write_tiny_checkpoint(checkpoint)
    run(tiny_entry(checkpoint), repository)
    (checkpoint / "README.md").write_text("changed")
    said = run(tiny_entry(checkpoint), repository)
    assert "version 2 is in service instead of version 1" in said
    assert f"`trireme rollback tiny --to 1 --repository {repository}` goes back" in said
    assert json.loads(manifest_path(repository, "tiny").read_bytes())["version"] == 2
    assert roll_back(repository, "tiny", None) == (2, 1)
    assert f"`trireme rollback tiny --to 2 --repository {repository}`" in run(tiny_entry(checkpoint), repository)
    reports = report_versions(repository, "tiny")
    assert [(each.version, each.is_active, each.fault) for each in reports] == [(2, False, None), (1, True, None)]
    (repository / "tiny_network/1/model.onnx").write_text("damaged")
    assert "version 3 is in service instead of version 1" in run(tiny_entry(checkpoint), repository)
    assert why_export(repository, "tiny", recipe_of(tiny_entry(checkpoint))) is None


def test_the_manifest_names_every_input_and_output_by_its_hash(exported, manifest, checkpoint_folder):
    assert manifest["source"]["files"] == hash_folder(checkpoint_folder)
    files = {path.relative_to(exported).as_posix() for path in exported.glob("tiny*/1/*")}
    assert manifest["artifacts"].keys() == files - {"tiny_network/1/manifest.json"}
    for name, artifact in manifest["artifacts"].items():
        assert artifact == {"sha256": sha256_of(exported / name), "bytes": (exported / name).stat().st_size}
    tokenizer = (exported / "tiny_preprocess/1/tokenizer.json").read_bytes()
    assert tokenizer == (checkpoint_folder / "tokenizer.json").read_bytes()


def test_the_graph_loads_in_old_runtimes_and_tells_nothing_of_this_machine(exported, manifest):
    path = exported / "tiny_network/1/model.onnx"
    model = onnx.load(path)
    assert (manifest["opset"], manifest["ir_version"]) == (model.opset_import[0].version, model.ir_version)
    assert model.opset_import[0].version <= 21
    assert model.ir_version <= 10
    assert {node.domain for node in model.graph.node} == {""}
    assert [dim.dim_param or dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim] == [
        "batch",
        "segments",
        32,
    ]
    for value in model.graph.input:
        assert [dim.dim_param for dim in value.type.tensor_type.shape.dim] == ["batch", "length"]
    assert b"site-packages" not in path.read_bytes()
    assert b"text_network" not in path.read_bytes()


def test_parity_has_many_cases_and_lies_far_inside_its_tolerance(manifest):
    assert manifest["parity"]["cases"] >= 20
    assert 0 < manifest["parity"]["measured"]["max_abs"] <= manifest["parity"]["tolerance"]["max_abs"] / 2


def test_golden_samples_are_the_originals_answers_through_windows_and_normalisation(manifest):
    for sample in manifest["golden"]:
        (embedding,) = (tensor for tensor in sample["outputs"] if tensor["name"] == "embedding")
        rows = np.array(embedding["data"]).reshape(embedding["shape"])
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    counts = [
        tensor["data"] for sample in manifest["golden"] for tensor in sample["outputs"] if tensor["name"] == "windows"
    ]
    assert max(max(own) for own in counts) > 2


def test_exporting_again_gives_the_same_files(entry, exported, manifest, tmp_path):
    run(entry, tmp_path)
    again = json.loads(manifest_path(tmp_path, "tiny").read_bytes())
    assert again["artifacts"] == manifest["artifacts"]
    assert again["golden"] == manifest["golden"]


class Forgetful(TextNetwork):
    """A graph that lets padding take part in the mean: the kind of mistake that loads without any error."""

    def forward(self, input_ids, attention_mask):
        return super().forward(input_ids, torch.ones_like(attention_mask))


def test_a_graph_that_answers_differently_is_not_installed(entry, exported, monkeypatch, tmp_path):
    monkeypatch.setattr(text_entry, "TextNetwork", Forgetful)
    before = {path: path.read_bytes() for path in exported.rglob("*") if path.is_file()}
    with pytest.raises(ParityFailed, match=r"onnxruntime .*differs from the original|shape"):
        run(entry, exported, force=True, report=tmp_path)
    assert {path: path.read_bytes() for path in exported.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("actual", [[[1.0, 2.1]], [[float("nan"), 2.0]], [[-1.0, -2.0]]])
def test_the_gate_is_closed_to_rows_that_differ(actual):
    difference = compare(np.array(actual), np.array([[1.0, 2.0]]))
    assert not difference.within(TOLERANCE)


def test_rows_that_should_be_zero_are_compared_too():
    assert compare(np.array([[0.0, 0.3]]), np.array([[0.0, 0.0]])).max_abs == pytest.approx(0.3)


def test_the_artifact_runs_in_every_runtime_alike(exported):
    inputs = {"input_ids": np.array([[2, 5, 3, 2, 7, 3]]), "attention_mask": np.array([[1, 1, 1, 2, 2, 2]])}
    answers = [runtime.run(inputs) for runtime in installed_runtimes(exported / "tiny_network/1/model.onnx")]
    assert len(answers) == 2
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-5)


def test_exporting_needs_torch_only_when_there_is_something_to_export(exported, checkpoint_folder):
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from trireme_export import commands
from trireme_export.installed import why_export
why_export(Path({str(exported)!r}), "tiny", "x")
assert not {{"torch", "transformers", "onnx", "google.protobuf"}} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
