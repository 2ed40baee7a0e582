"""The command line: what is said, and the exit code that scripts see."""

import pytest
from click.testing import CliRunner
from trireme_export import commands
from trireme_export.commands import export

from .conftest import tiny_entry
from .tiny_models import write_tiny_classifier


@pytest.fixture
def run(monkeypatch, tmp_path, tiny_folder):
    """`trireme export ...` on a catalogue with one tiny entry."""
    monkeypatch.setitem(commands.CATALOGUE, "embed", tiny_entry(tiny_folder))
    monkeypatch.setenv("TRIREME_CACHE", str(tmp_path / "cache"))

    def run(*arguments):
        return CliRunner().invoke(export, [*map(str, arguments), "--repository", str(tmp_path / "repository")])

    return run


def test_a_refused_checkpoint_is_named_without_a_traceback(run, tiny_folder):
    (tiny_folder / "modules.json").unlink()
    result = run("embed")
    assert result.exit_code == 4
    assert "modules.json" in result.stderr
    assert "Traceback" not in result.output
    assert not (tiny_folder.parent / "repository").exists(), "the repository is as it was"


def test_debug_shows_where_an_error_comes_from(run, tiny_folder):
    (tiny_folder / "modules.json").unlink()
    result = run("embed", "--debug")
    assert result.exit_code == 4
    assert "Traceback" in result.stderr


def test_a_checkpoint_that_is_not_there_has_its_own_exit_code(run):
    result = run("/no/such/folder")
    assert result.exit_code == 3
    assert "/no/such/folder is not a folder" in result.stderr


def test_a_pickle_needs_to_be_allowed(run, tmp_path):
    write_tiny_classifier(tmp_path / "pickled", "bert")
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    result = run(tmp_path / "pickled")
    assert result.exit_code == 4
    assert "--allow-pickle" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("unknown",),
        ("embed", "--allow-pickle"),
        ("embed", "./folder", "--name", "x"),
        ("./folder", "--task", "translation"),
        ("./folder", "--name", "a/b"),
        ("./folder", "--name", "embed"),
        ("./folder", "--name", "guard_network"),
        ("--nonsense",),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage" in result.stderr


def test_a_repository_that_is_a_file_is_a_usage_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert CliRunner().invoke(export, ["embed", "--repository", str(tmp_path / "file")]).exit_code == 2
