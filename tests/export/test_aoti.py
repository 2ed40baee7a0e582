"""`--to aoti`: the compiled network answers as the library does, stands bad ids, and is served without a compiler."""

import json
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from served import over_http, serve
from torch import nn
from transformers import AutoModelForSequenceClassification, pipeline
from trireme_export.commands import export
from trireme_export.errors import CheckpointRefused, ExportError
from trireme_export.installed import manifest_path
from trireme_export.lookup_guard import GuardedNetwork, check_all_guarded
from trireme_export.to_aoti import write_package
from trireme_network.aoti_package import read_package, refuse_elsewhere
from trireme_network.graph import RunFailed
from trireme_network.run_on_aoti import AotInductor
from trireme_server.binding_checks import cpu_flags

from .conftest import run
from .test_served_own_text import TEXTS, check_answer
from .tiny_models import word_pieces, write_tiny_classifier

VOCABULARY = len(word_pieces("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of a tiny classifier, and the repository with its compiled network."""
    folder = tmp_path_factory.mktemp("aoti") / "checkpoint"
    write_tiny_classifier(folder, "bert")
    run(folder, "--to", "aoti", "--repository", folder.parent / "repository")
    return folder, folder.parent / "repository"


@pytest.fixture(scope="module")
def network(exported):
    """`network(inputs)`: the package on one thread."""
    package = read_package(exported[1] / "checkpoint_network" / "1" / "model.pt2")
    refuse_elsewhere(package)
    (stream,) = AotInductor(package, runs=1).open_streams(1, 1)
    return lambda ids, mask: stream({"input_ids": ids, "attention_mask": mask})["logits"]


def random_ids(shape):
    return np.random.default_rng(5).integers(0, VOCABULARY, shape)


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (2, 66)])
def test_shapes_that_were_never_traced_get_the_librarys_logits(exported, network, shape):
    ids = random_ids(shape)
    model = AutoModelForSequenceClassification.from_pretrained(exported[0]).eval()
    with torch.inference_mode():
        expected = model(torch.from_numpy(ids)).logits.numpy()
    np.testing.assert_allclose(network(ids, np.ones(shape, np.int64))[:, 0], expected, atol=2e-5)


def test_texts_in_a_batch_and_in_one_row_answer_as_each_alone(network):
    ids = random_ids((4, 9))
    alone = np.concatenate([network(row[None], np.ones((1, 9), np.int64))[:, 0] for row in ids])
    np.testing.assert_allclose(network(ids, np.ones((4, 9), np.int64))[:, 0], alone, atol=2e-6)
    packed = np.repeat([1, 2, 3, 4], 9)[None]
    np.testing.assert_allclose(network(ids.reshape(1, 36), packed)[0], alone, atol=2e-6)


@pytest.mark.parametrize("bad", [-1, VOCABULARY, 10**12])
def test_an_id_that_the_vocabulary_lacks_is_refused_and_ends_nothing(network, bad):
    mask = np.ones((1, 3), np.int64)
    with pytest.raises(RunFailed, match=f"'input_ids' holds an index that is outside its table of {VOCABULARY} rows"):
        network(np.array([[2, bad, 3]]), mask)
    assert np.isfinite(network(np.array([[2, 5, 3]]), mask)).all()


def test_a_text_longer_than_the_positions_is_refused(network):
    with pytest.raises(RunFailed, match="outside its table of 66 rows; is the text too long"):
        network(np.full((1, 67), 5), np.ones((1, 67), np.int64))


def test_a_stream_keeps_to_its_threads(exported):
    library = AotInductor(read_package(exported[1] / "checkpoint_network" / "1" / "model.pt2"), runs=2)
    streams, found = [*library.open_streams(1, 1), *library.open_streams(1, 2)], []

    def use(stream):
        stream({"input_ids": random_ids((2, 5)), "attention_mask": np.ones((2, 5), np.int64)})
        found.append(torch.get_num_threads())

    for stream in streams:
        thread = threading.Thread(target=use, args=[stream])
        thread.start()
        thread.join()
    assert found == [1, 2]


def test_the_manifest_binds_the_package_to_torch_and_cpu(exported):
    manifest = json.loads(manifest_path(exported[1], "checkpoint").read_bytes())
    assert manifest["target"] == "aoti"
    assert manifest["aoti"]["torch"] == torch.__version__.partition("+")[0]
    assert "avx2" in manifest["aoti"]["cpu_flags"]
    assert set(manifest["aoti"]["cpu_flags"]) <= cpu_flags()
    config = (exported[1] / "checkpoint_network" / "config.pbtxt").read_text()
    assert 'backend: "aoti"' in config
    assert "trireme.runtime" not in config


def test_the_package_tells_nothing_of_the_machine_that_wrote_it(exported):
    content = (exported[1] / "checkpoint_network" / "1" / "model.pt2").read_bytes()
    assert str(Path.home()).encode() + b"/" not in content
    assert b".cpp -D" not in content  # the compiler's command


@pytest.mark.system
def test_it_is_served_where_there_is_no_compiler(exported, tmp_path, monkeypatch):
    folder, repository = exported
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "sh", "env"):  # Triton starts a stub through a shell
        (programs / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{programs}")
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert not any(map(shutil.which, ("g++", "gcc", "c++", "cc", "clang", "ld", "as")))
    with serve(tmp_path, repository=repository) as serving:
        answer = over_http(serving, "checkpoint", "text", [text.encode() for text in TEXTS])
    check_answer(answer, pipeline("text-classification", model=str(folder), top_k=None))


def test_without_a_compiler_the_export_says_which_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ExportError, match="needs a C\\+\\+ compiler, and 'no-such-compiler' is not there"):
        write_package(None, tmp_path / "model.pt2")


def test_another_precision_is_refused_before_anything_is_read(folder, repository):
    write_tiny_classifier(folder, "bert")
    asked = ["--to", "aoti", "--precision", "int8", "--repository", str(repository)]
    result = CliRunner().invoke(export, [str(folder), *asked])
    assert result.exit_code == 4
    assert "--to aoti has no --precision int8: it has fp32" in result.stderr


class Picks(nn.Module):
    """Looks up without an embedding, by what the request holds."""

    def forward(self, ids):
        return torch.arange(9.0).gather(0, ids)


class Bags(nn.Module):
    """Sums rows of a table, as the library's own function decides which overload."""

    def forward(self, ids):
        return nn.functional.embedding_bag(ids[None], torch.ones(9, 2))


def test_no_overload_of_a_lookup_passes_unguarded():
    program = torch.export.export(GuardedNetwork(Bags(), ["ids"]), (torch.ones(3, dtype=torch.int64),), strict=False)
    with pytest.raises(CheckpointRefused, match=r"embedding_bag"):
        check_all_guarded(program)


def test_a_lookup_that_cannot_be_guarded_is_refused_with_the_line_it_is_called_in():
    program = torch.export.export(GuardedNetwork(Picks(), ["ids"]), (torch.ones(3, dtype=torch.int64),), strict=False)
    with pytest.raises(CheckpointRefused, match=r"gather \(aten\.gather\.default\)[^$]*return torch\.arange"):
        check_all_guarded(program)
