"""What `trireme verify` says of an entry's files: which manifest proves nothing, and how to export it anew."""

import json
from pathlib import Path

import pytest
from launching import pin, probe, write_manifest, write_model
from trireme_server.exit_codes import VerifyCode
from trireme_server.repository import read_repository
from trireme_server.verify import check_files


def problems(repository, name):
    return check_files(repository, read_repository(repository).entries([name])[0]).problems


def test_a_remembered_hash_is_not_trusted(repository, monkeypatch):
    monkeypatch.setattr("trireme_server.artifacts.HashCache.sha256", lambda *_: pytest.fail("remembered"))
    assert not problems(repository, "echo")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no manifest"),
        ("{", "cannot be read"),
        ({"golden": []}, "has no golden samples"),
        ({"golden": [{"inputs": [], "outputs": []}]}, "golden sample 1 has no outputs"),
        ({"artifacts": {}}, "names no artifacts"),
        ({"entry": "rudder"}, "is the manifest of another entry, 'rudder'"),
        ({"version": 2}, "is of version 2, and lies in that of 1"),
        ({"version": "1"}, "version is '1', which is no whole number"),
        ({"models": ["echo"]}, "is of the models echo; the entry has echo_first, echo_second, echo"),
        ({"models": ["echo_first", "echo_second", "echo", "rudder"]}, "is of the models"),
        ({"models": [1]}, "models holds 1 where a name belongs"),
    ],
)
def test_an_entry_with_nothing_to_compare_with_is_not_verified(repository, content, said):
    file = repository / "echo_second" / "1" / "manifest.json"
    if content is None:
        file.unlink()
    else:
        file.write_text(content if isinstance(content, str) else json.dumps(json.loads(file.read_text()) | content))
    (problem,) = problems(repository, "echo")
    assert problem.code is VerifyCode.CHANGED
    assert said in problem.found


@pytest.mark.parametrize("name", ["version", "models"])
def test_a_manifest_says_of_which_version_and_models_it_is(repository, name):
    file = repository / "echo_second" / "1" / "manifest.json"
    file.write_text(json.dumps({key: value for key, value in json.loads(file.read_text()).items() if key != name}))
    (problem,) = problems(repository, "echo")
    assert problem.found.endswith(f"lacks '{name}'")


@pytest.mark.parametrize("path", ["echo_first/1/labels.json", "echo_second/1/deep/weights.bin"])
def test_a_file_that_the_manifest_does_not_name_is_not_verified(repository, path):
    (repository / path).parent.mkdir(exist_ok=True)
    (repository / path).write_text("[]")
    (problem,) = problems(repository, "echo")
    assert problem.code is VerifyCode.CHANGED
    assert problem.found.endswith(f"echo_second/1/manifest.json does not name {path}")


@pytest.mark.parametrize(
    "path",
    [
        "echo_first/1/.DS_Store",
        "echo_first/1/__pycache__/model.cpython-311.pyc",
        "echo_first/1/labels.json~",
        "echo_first/1/labels.json.bak",
        "echo_first/1/labels.json.orig",
        "echo_first/config.pbtxt.bak",
        "echo_first/2/model.bin",
        "echo/1/echo.pbtxt",
    ],
)
def test_what_no_model_reads_may_lie_there(repository, path):
    pin(repository, "echo_first", 1)
    (repository / path).parent.mkdir(exist_ok=True)
    (repository / path).write_text("[]")
    assert not problems(repository, "echo")


@pytest.mark.parametrize(
    ("entry", "content", "advice"),
    [
        ("embed", None, "trireme export embed --force"),
        ("own", None, "export it again from its checkpoint: trireme export CHECKPOINT --name own --force"),
        ("own", {"source": {"uri": "/a ship/own"}}, "trireme export '/a ship/own' --name own --force"),
        (
            "own",
            {"source": {"uri": "pypi://own==1", "sha256": "ab"}},
            "trireme export 'pypi://own==1#sha256=ab' --name own --force",
        ),
        (
            "own",
            {"source": {"uri": "/ships/own"}, "target": "openvino", "precision": "fp16"},
            "trireme export /ships/own --to openvino --precision fp16 --name own --force",
        ),
        (
            "own",
            {"source": {}, "target": "aoti"},
            "export it again from its checkpoint: trireme export CHECKPOINT --to aoti --name own --force",
        ),
        (
            "own",
            {"entry": "other"},
            "export it again from its checkpoint: trireme export CHECKPOINT --name own --force",
        ),
    ],
)
def test_the_advice_names_the_checkpoint_of_an_entry_that_the_catalogue_does_not_know(tmp_path, entry, content, advice):
    write_model(tmp_path, entry, probe())
    file = write_manifest(tmp_path, entry, entry, {"oars": "OARS"})
    file.write_text("{" if content is None else json.dumps(json.loads(file.read_text()) | content))
    (tmp_path / entry / "1" / "model.bin").unlink()
    assert {problem.fix for problem in problems(tmp_path, entry)} == {f"{advice} --repository {tmp_path}"}


@pytest.mark.parametrize(
    ("folder", "option"),
    [
        ("model_repository", ""),
        ("./model_repository", ""),
        ("other", " --repository other"),
        ("a fleet", " --repository 'a fleet'"),
        ("../it's here", """ --repository '../it'"'"'s here'"""),
    ],
)
def test_the_advice_names_a_repository_that_the_commands_do_not_take_by_themselves(
    tmp_path, monkeypatch, folder, option
):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    write_model(Path(folder), "own", probe())
    (problem,) = problems(Path(folder), "own")
    assert problem.fix == f"export it again from its checkpoint: trireme export CHECKPOINT --name own --force{option}"
