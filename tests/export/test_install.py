"""An entry is switched in whole: at no moment does a manifest stand for files that are not there."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trireme_export.errors import InstallFailed
from trireme_export.files import sha256_of
from trireme_export.install import STAGING, install, staging_folder
from trireme_export.installed import why_export

ENTRY = "tiny"
MODELS = ["tiny", "tiny_postprocess", "tiny_preprocess", "tiny_network"]

# Installs generations of an entry one after the other, for as long as it is left alive.
WRITER = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_install import MODELS, stage
from trireme_export.install import install, staging_folder
for generation in range(1, 1000):
    with staging_folder(Path(sys.argv[1])) as staged:
        stage(staged, str(generation))
        install(staged, Path(sys.argv[1]), MODELS)
    print(generation, flush=True)
"""


def stage(staged, generation):
    """An entry whose every file carries its generation; files large enough to be killed while they are written."""
    artifacts = {}
    for model in MODELS:
        (staged / model / "1").mkdir(parents=True)
        (staged / model / "config.pbtxt").write_text(f'name: "{model}"\n')
    for name in ("tiny_network/1/model.onnx", "tiny_preprocess/1/tokenizer.json"):
        (staged / name).write_text(generation * 100_000)
        artifacts[name] = {"sha256": sha256_of(staged / name)}
    manifest = {"models": MODELS, "artifacts": artifacts, "recipe": "r", "generation": generation}
    (staged / "tiny_network" / "1" / "manifest.json").write_text(json.dumps(manifest))


def put(repository, generation):
    with staging_folder(repository) as staged:
        stage(staged, generation)
        install(staged, repository, MODELS)


def test_an_installed_entry_is_intact_and_nothing_else_is_left(tmp_path):
    put(tmp_path, "1")
    put(tmp_path, "2")
    assert why_export(tmp_path, ENTRY, "r") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(MODELS)
    assert (tmp_path / "tiny_network/1/model.onnx").read_text() == "2" * 100_000


def test_folders_of_a_server_that_runs_as_another_user_can_be_read(tmp_path):
    put(tmp_path, "1")
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o044 == 0o044, path


def test_whatever_step_fails_a_new_entry_is_there_whole_or_not_there(tmp_path, monkeypatch):
    """The rename that fails is each of them in turn."""
    for allowed in range(20):
        repository = tmp_path / str(allowed)
        calls = iter(range(100))
        replace = Path.replace

        def failing(path, target, *, _calls=calls, _allowed=allowed, _replace=replace):
            if next(_calls) == _allowed:
                raise OSError("killed here")
            return _replace(path, target)

        monkeypatch.setattr(Path, "replace", failing)
        try:
            put(repository, "1")
        except OSError:
            assert why_export(repository, ENTRY, "r") == "not exported yet"
            assert not (repository / "tiny_network" / "1" / "manifest.json").exists()
        else:
            assert why_export(repository, ENTRY, "r") is None
            break
        finally:
            monkeypatch.undo()
    assert allowed == 2 * len(MODELS), "every rename was made to fail once"


def killed_while_installing(repository, delay_s):
    command = [sys.executable, "-c", WRITER, str(repository), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        first = writer.stdout.readline()
        time.sleep(delay_s)
        writer.send_signal(signal.SIGKILL)
        finished = [int(line) for line in (first + writer.stdout.read()).split()]
    return finished[-1]


def check_killed(tmp_path, delays):
    for delay_s in delays:
        finished = killed_while_installing(tmp_path, delay_s)
        reason = why_export(tmp_path, ENTRY, "r")
        assert reason is None or "was changed" in reason, reason  # the second: killed between two renames
        if reason is None:
            content = (tmp_path / "tiny_network/1/model.onnx").read_text()
            assert content in (str(finished) * 100_000, str(finished + 1) * 100_000)
        put(tmp_path, "next")
        assert why_export(tmp_path, ENTRY, "r") is None
        assert not list(tmp_path.glob(f"{STAGING}*"))


def test_a_killed_installation_leaves_the_old_entry_or_the_new_one(tmp_path):
    check_killed(tmp_path, [0.0, 0.003, 0.011])


@pytest.mark.slow
def test_a_killed_installation_leaves_the_old_entry_or_the_new_one_at_many_moments(tmp_path):
    check_killed(tmp_path, [step * 0.0013 for step in range(25)])


def test_two_exports_do_not_write_at_the_same_time(tmp_path):
    with staging_folder(tmp_path), pytest.raises(InstallFailed, match="another export"), staging_folder(tmp_path):
        pass


def test_a_repository_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InstallFailed, match="file"), staging_folder(tmp_path / "file"):
        pass


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda root: (root / "tiny_network/1/model.onnx").write_text("x"), r"model\.onnx is missing or was changed"),
        (lambda root: (root / "tiny_preprocess/1/tokenizer.json").unlink(), r"tokenizer\.json is missing"),
        (lambda root: (root / "tiny/config.pbtxt").unlink(), "tiny is incomplete"),
        (lambda root: (root / "tiny/1").rmdir(), "tiny is incomplete"),
        (lambda root: (root / "tiny_network/1/manifest.json").write_text("{"), "manifest is damaged"),
        (lambda root: (root / "tiny_network/1/manifest.json").unlink(), "not exported yet"),
    ],
)
def test_a_damaged_entry_is_seen(tmp_path, damage, reason):
    put(tmp_path, "1")
    damage(tmp_path)
    assert re.search(reason, why_export(tmp_path, ENTRY, "r"))


def test_another_recipe_asks_for_a_new_export(tmp_path):
    put(tmp_path, "1")
    assert "another checkpoint" in why_export(tmp_path, ENTRY, "other")
