"""`trireme inspect`: what is told of a checkpoint, and that none of it is run or loaded."""

import hashlib
import json
import pickle

import pytest
import safetensors.torch
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from trireme_export.executable_files import executable_files
from trireme_export.inspect_command import inspect
from trireme_export.inspection import inspect_checkpoint
from trireme_export.stored_tensor import StoredTensor
from trireme_export.tensor_blocks import block_name, blocks_of

from .conftest import WORDS, write_json
from .test_gguf_header import TOKENS, write_gguf
from .tiny_image_models import TINY_IMAGE_FAMILIES, write_tiny_image_classifier, write_tiny_image_encoder
from .tiny_models import TINY_FAMILIES, write_tiny_classifier, write_tiny_encoder, write_tiny_token_classifier

INDEX = "model.safetensors.index.json"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`trireme inspect CHECKPOINT ...`"""
    monkeypatch.setenv("TRIREME_CACHE", str(tmp_path / "cache"))
    return lambda *arguments: CliRunner().invoke(inspect, list(map(str, arguments)))


@pytest.fixture
def told(run):
    """What --json says."""

    def told(checkpoint):
        result = run(checkpoint, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return told


def change_json(path, **changes):
    write_json(path, json.loads(path.read_bytes()) | changes)


def shard(folder, *, index=True):
    """The tiny checkpoint's tensors in two files; returns the index's weight_map."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        places |= dict.fromkeys(part, file)
    if index:
        write_json(folder / INDEX, {"metadata": {}, "weight_map": places})
    return places


def test_a_checkpoint_is_described_to_the_last_tensor(told, tiny_folder):
    document, tensors = told(tiny_folder), load_file(tiny_folder / "model.safetensors")
    assert {each["name"]: tuple(each["shape"]) for each in document["tensors"]} == {
        name: tuple(tensor.shape) for name, tensor in tensors.items()
    }
    assert {each["dtype"] for each in document["tensors"]} == {"F32"}
    count = sum(tensor.numel() for tensor in tensors.values())
    assert (document["parameters"], document["bytes"], document["dtypes"]) == (count, 4 * count, {"F32": count})
    content = (tiny_folder / "model.safetensors").read_bytes()
    assert document["weights"] == {"model.safetensors": hashlib.sha256(content).hexdigest()}
    assert document["source"]["uri"] == str(tiny_folder)
    assert document["model_type"] == "bert"
    assert document["task"]["task"] == "sentence-embedding"
    assert document["tokenizer"]["kind"] == "WordLevel"
    assert document["tokenizer"]["vocabulary"] == document["tokenizer"]["model_vocabulary"] == len(WORDS)
    assert document["exporter"] == {"refusal": None, "missing": [], "unexpected": []}
    assert document["warnings"] == []


def test_weights_are_not_loaded(told, tiny_folder, monkeypatch):
    monkeypatch.setattr(safetensors.torch, "load_file", lambda *_: pytest.fail("loaded"))
    monkeypatch.setattr(torch, "load", lambda *_: pytest.fail("loaded"))
    monkeypatch.setattr(pickle, "Unpickler", lambda *_: pytest.fail("unpickled"))
    (tiny_folder / "optimizer.pt").write_bytes(pickle.dumps([1]))
    assert told(tiny_folder)["parameters"]


def test_people_see_blocks(run, tiny_folder):
    result = run(tiny_folder)
    assert result.exit_code == 0
    assert "encoder.layer.0 + 1 alike" in result.stdout
    assert "embeddings.word_embeddings.weight" not in result.stdout
    assert "sentence-embedding: modules.json lists Transformer, Pooling, Normalize" in result.stdout


def test_every_file_that_could_execute_has_a_warning(told, tiny_folder):
    for name in ("modeling.py", "pytorch_model.bin", "sub/training_args.PT", "run.sh", "config.yaml"):
        (tiny_folder / name).parent.mkdir(exist_ok=True)
        (tiny_folder / name).write_bytes(b"\x80")
    change_json(tiny_folder / "config.json", auto_map={"AutoModel": "modeling.Model"})
    document = told(tiny_folder)
    names = [each["file"] for each in document["executables"]]
    assert names == ["modeling.py", "pytorch_model.bin", "run.sh", "sub/training_args.PT"]
    assert [warning.split()[0] for warning in document["warnings"]] == [*names, "config.json"]


def test_a_name_is_told_by_its_ending_in_any_case():
    assert [name for name, _ in executable_files(["a.PKL", "a.txt", "bin", "b.npz"])] == ["a.PKL", "b.npz"]


def test_a_checkpoint_of_pickles_alone_is_described_as_far_as_it_goes(told, tiny_folder):
    (tiny_folder / "model.safetensors").rename(tiny_folder / "pytorch_model.bin")
    document = told(tiny_folder)
    assert (document["weights"], document["tensors"], document["exporter"]) == ({}, [], None)
    assert document["model_type"] == "bert"


def test_missing_and_unexpected_tensors_are_named_all(told, tiny_folder):
    tensors = load_file(tiny_folder / "model.safetensors")
    missing = [name for name in tensors if name.startswith("encoder.layer.1.")]
    for name in missing:
        tensors[f"old.{name}"] = tensors.pop(name)
    save_file(tensors, tiny_folder / "model.safetensors")
    fit = told(tiny_folder)["exporter"]
    assert fit["missing"] == sorted(missing)
    assert fit["unexpected"] == sorted(f"old.{name}" for name in missing)
    assert "missing" in fit["refusal"]


@pytest.mark.parametrize("family", TINY_FAMILIES)
@pytest.mark.parametrize("write", [write_tiny_classifier, write_tiny_token_classifier, write_tiny_encoder])
def test_every_family_that_the_exporter_knows_fits(told, tmp_path, family, write):
    write(tmp_path / "tiny", family)
    assert told(tmp_path / "tiny")["exporter"] == {"refusal": None, "missing": [], "unexpected": []}


@pytest.mark.parametrize("family", TINY_IMAGE_FAMILIES)
@pytest.mark.parametrize(
    ("write", "task"),
    [(write_tiny_image_classifier, "image-classification"), (write_tiny_image_encoder, "image-embedding")],
)
def test_every_image_family_that_the_exporter_knows_fits(told, tmp_path, family, write, task):
    write(tmp_path / "tiny", family)
    document = told(tmp_path / "tiny")
    assert document["exporter"] == {"refusal": None, "missing": [], "unexpected": []}
    assert document["task"]["task"] == task


def test_an_image_classifier_that_the_exporter_would_refuse_is_told(told, tmp_path):
    write_tiny_image_classifier(tmp_path / "tiny", "resnet")
    change_json(tmp_path / "tiny" / "config.json", depths=[10**9])
    assert "depths is 1000000000, and there are" in told(tmp_path / "tiny")["exporter"]["refusal"]
    change_json(tmp_path / "tiny" / "config.json", depths=[1, 1, 2, 1], zoom=2)
    assert "zoom: not known for resnet" in told(tmp_path / "tiny")["exporter"]["refusal"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": 64}, "needed is"),
        ({"rope_scaling": {"factor": 2}}, "rope_scaling"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"hidden_act": "unheard-of"}, "transformers library refuses"),
        ({"vocab_size": "many"}, "transformers library refuses"),
        ({"vocab_size": 0}, "vocab_size is 0, which is no size"),
    ],
)
def test_a_config_that_the_exporter_would_refuse_is_told(told, tiny_folder, changes, said):
    change_json(tiny_folder / "config.json", **changes)
    assert said in told(tiny_folder)["exporter"]["refusal"]


def test_of_an_unknown_family_nothing_is_expected(told, tiny_folder):
    change_json(tiny_folder / "config.json", model_type="unheard-of", architectures=["UnheardOfForCausalLM"])
    (tiny_folder / "modules.json").unlink()
    document = told(tiny_folder)
    assert document["exporter"] is None
    assert document["task"] == {"task": "text-generation", "because": "config.json names UnheardOfForCausalLM"}


def test_ids_that_the_model_does_not_have_are_a_warning(told, tiny_folder):
    change_json(tiny_folder / "config.json", vocab_size=5)
    document = told(tiny_folder)
    assert document["tokenizer"]["exceeds_model"]
    assert document["warnings"] == [f"tokenizer.json gives ids up to {len(WORDS) - 1}, and the model has 5"]


def test_labels_and_licences_are_told_with_their_places(told, tiny_folder):
    change_json(tiny_folder / "config.json", id2label={"0": "SAFE", "1": "INJECTION"}, license="mit")
    (tiny_folder / "README.md").write_text("---\ntags: [a]\nlicense: apache-2.0\n---\nlicense: none\n")
    (tiny_folder / "license.py").write_text("text = 'mine'")
    (tiny_folder / "LICENSE-APACHE").write_text("\n  Apache License\n  Version 2.0\n")
    document = told(tiny_folder)
    assert document["labels"] == ["SAFE", "INJECTION"]
    assert [(each["place"], each["text"]) for each in document["licences"]] == [
        ("LICENSE-APACHE", "Apache License"),
        ("README.md", "apache-2.0"),
        ("config.json", "mit"),
    ]


def test_shards_are_one_checkpoint(told, tiny_folder):
    before = told(tiny_folder)
    shard(tiny_folder)
    after = told(tiny_folder)
    assert sorted(map(str, after["tensors"])) == sorted(map(str, before["tensors"]))
    assert len(after["weights"]) == 2
    assert after["exporter"] == before["exporter"]


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({}, "is not in the index"),
        ({"extra.weight": "model-00001-of-00002.safetensors"}, "extra.weight is not in model-00001"),
        ({"extra.weight": "../model.safetensors"}, "there is no ../model.safetensors"),
        (None, "has no weight_map"),
    ],
)
def test_an_index_that_contradicts_its_files_is_refused(run, tiny_folder, places, said):
    whole = shard(tiny_folder)
    if places == {}:
        del whole["pooler.dense.bias"]
    content = {} if places is None else {"weight_map": whole | places}
    write_json(tiny_folder / INDEX, content)
    result = run(tiny_folder)
    assert result.exit_code == 4
    assert said in result.stderr


def test_a_tensor_in_two_shards_is_refused(run, tiny_folder):
    shard(tiny_folder)
    first, second = (tiny_folder / f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    tensors = load_file(first)
    name = min(tensors)
    save_file(load_file(second) | {name: tensors[name]}, second)
    result = run(tiny_folder)
    assert result.exit_code == 4
    assert f"{name} is in {first.name} and in {second.name}" in result.stderr


def test_several_files_without_an_index_are_refused(run, tiny_folder):
    shard(tiny_folder, index=False)
    result = run(tiny_folder)
    assert (result.exit_code, "and neither model.safetensors nor" in result.stderr) == (4, True)


def test_a_damaged_file_is_refused_without_a_traceback(run, tiny_folder):
    path = tiny_folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    result = run(tiny_folder)
    assert result.exit_code == 4
    assert "model.safetensors: cut short" in result.stderr
    assert "Traceback" not in result.output


def test_a_model_inside_a_package_is_found(told, tiny_folder, tmp_path):
    package = tmp_path / "package"
    (package / "tiny_weights").mkdir(parents=True)
    (package / "tiny_weights" / "__init__.py").write_text("")
    tiny_folder.rename(package / "tiny_weights" / "model")
    document = told(package)
    assert document["source"]["folder"] == "tiny_weights/model"
    assert document["parameters"]
    assert [each["file"] for each in document["executables"]] == ["tiny_weights/__init__.py"]


def test_an_encoder_in_the_folder_of_its_module_is_found(told, tiny_folder):
    (tiny_folder / "0_Transformer").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tiny_folder / name).rename(tiny_folder / "0_Transformer" / name)
    document = told(tiny_folder)
    assert document["source"]["folder"] == "0_Transformer"
    assert document["task"]["task"] == "sentence-embedding"
    assert document["exporter"]["refusal"] is None


@pytest.mark.parametrize(
    ("file", "content"), [("config.json", "[]"), ("config.json", "{"), ("tokenizer.json", "{}"), (INDEX, "[]")]
)
def test_json_that_is_not_what_it_should_be_is_refused(run, tiny_folder, file, content):
    (tiny_folder / file).write_text(content)
    result = run(tiny_folder)
    assert (result.exit_code, file in result.stderr) == (4, True)


@pytest.mark.parametrize(
    ("checkpoint", "code"), [("/no/such/folder", 3), ("/no/such/file.gguf", 3), ("s3://x", 3), ("pypi://x", 3)]
)
def test_what_cannot_be_reached_has_its_own_exit_code(run, checkpoint, code):
    result = run(checkpoint)
    assert result.exit_code == code
    assert checkpoint in result.stderr


def test_a_folder_without_a_model_is_refused(run, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("nothing")
    result = run(tmp_path / "empty")
    assert (result.exit_code, "found none" in result.stderr) == (4, True)


def test_a_gguf_file_is_described(told, tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", tokens=[*TOKENS, "d"])
    document = told(path)
    assert document["model_type"] == "llama"
    assert document["weights"] == {"tiny.gguf": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert document["dtypes"] == {"Q8_0": 256, "F32": 192}
    assert document["licences"] == [{"place": "tiny.gguf", "text": "mit"}]
    assert document["warnings"] == ["tiny.gguf gives ids up to 3, and the model has 3"]


def test_the_hub_is_known_not_to_give_its_pickles(monkeypatch, tiny, tmp_path):
    import dataclasses

    hub = dataclasses.replace(tiny, uri="hf://org/name@0123")
    monkeypatch.setattr("trireme_export.inspection.fetch", lambda *_: hub)
    found = inspect_checkpoint("hf://org/name@main", tmp_path, lambda *_: None)
    assert any("never fetched" in warning for warning in found.warnings)


@pytest.mark.parametrize("value", [None, True, -1, 1e300, "x", [], [[]], {}, {"0": []}])
def test_a_value_of_the_wrong_kind_is_no_crash(run, tiny_folder, value):
    keys = ("model_type", "architectures", "vocab_size", "id2label", "license", "num_hidden_layers")
    for key in keys:
        content = (tiny_folder / "config.json").read_bytes()
        change_json(tiny_folder / "config.json", **{key: value})
        assert run(tiny_folder).exit_code == 0, key
        (tiny_folder / "config.json").write_bytes(content)
    for file in ("modules.json", "tokenizer.json"):
        write_json(tiny_folder / file, value if file == "modules.json" else {"model": {"vocab": value}})
        assert run(tiny_folder).exit_code in (0, 4), file


@pytest.mark.parametrize("depth", [500, 900, 950, 980, 100_000])
def test_json_that_is_nested_deeply_is_no_crash(run, tiny_folder, depth):
    nested = "[" * depth + "]" * depth
    for file in ("config.json", "modules.json"):
        (tiny_folder / file).write_text('{"architectures": [X], "id2label": {"0": X}, "type": X}'.replace("X", nested))
    assert run(tiny_folder).exit_code in (0, 4)


def test_control_characters_in_names_do_not_reach_the_terminal(run, tiny_folder):
    tensors = load_file(tiny_folder / "model.safetensors")
    save_file(tensors | {"\x1b[2Jevil.weight": torch.zeros(1)}, tiny_folder / "model.safetensors")
    result = run(tiny_folder)
    assert (result.exit_code, "evil" in result.stdout, "\x1b[2J" in result.stdout) == (0, True, False)


def test_a_block_ends_with_the_first_number():
    names = ["encoder.layer.3.output.bias", "embeddings.norm.weight", "model.embeddings.norm.weight", "lm_head.weight"]
    assert [block_name(name) for name in names] == ["encoder.layer.3", "embeddings", "model.embeddings", "lm_head"]


def test_blocks_are_alike_if_their_tensors_have_the_same_names_shapes_and_dtypes():
    shapes = {f"h.{number}.w": (2,) for number in range(12)} | {"h.7.w": (3,)}
    tensors = [
        StoredTensor(name=name, dtype="F32", shape=shape, begin=0, num_bytes=0) for name, shape in shapes.items()
    ]
    assert [(block.name, block.others) for block in blocks_of(tensors)] == [("h.0", 10), ("h.7", 0)]
