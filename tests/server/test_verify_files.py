"""What `trireme verify` says of an entry's files: which manifest proves nothing, and how to export it anew."""

import json
from pathlib import Path

import pytest
from launching import probe, write_manifest, write_model
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
