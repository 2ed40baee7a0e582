"""What an entry of a user's own checkpoint is called, and where in what was fetched the checkpoint lies."""

import pytest
from trireme_export.catalogue import OwnModel
from trireme_export.checkpoint import open_checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.model_folder import model_folder
from trireme_export.own_checkpoint import InvalidName, own_entry


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("hf://org/My.Model-v2@main", "My_Model-v2"),
        ("pypi://some-weights==1.0#sha256=" + "0" * 64, "some-weights"),
        ("/models/mood classifier/", "mood_classifier"),
        ("/models/.hidden.", "hidden"),
    ],
)
def test_an_entry_is_called_like_its_folder_or_repository(uri, name):
    assert own_entry(uri, None, OwnModel()).name == name


@pytest.mark.parametrize("name", ["embed", "guard_network", "vision_preprocess", "a/b", "-a", "x" * 65, "日本"])
def test_a_name_that_the_server_or_the_catalogue_cannot_have_is_refused(name):
    with pytest.raises(InvalidName):
        own_entry("/models/mood", name, OwnModel())


def checkpoint(tmp_path, *names):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    return open_checkpoint("weights", tmp_path)


def test_the_checkpoint_of_a_wheel_is_the_folder_with_the_outermost_config(tmp_path):
    whole = checkpoint(tmp_path, "package/model/config.json", "package/model/1_Pooling/config.json", "package/py.typed")
    found = whole.below(model_folder(whole))
    assert found.folder == tmp_path / "package" / "model"
    assert sorted(found.files) == ["1_Pooling/config.json", "config.json"]


@pytest.mark.parametrize("names", [("a/config.json", "b/config.json"), ("README.md",)])
def test_a_wheel_with_several_checkpoints_or_none_is_refused(tmp_path, names):
    with pytest.raises(CheckpointRefused, match=r"one folder with weights or a config\.json is needed"):
        model_folder(checkpoint(tmp_path, *names))
