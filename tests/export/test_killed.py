"""kill -9 at some moment of a whole export: what was in the repository is there and loads as before."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from trireme_export.files import hash_folder
from trireme_export.install import GENERATED
from trireme_export.steps import entry_models
from trireme_export.versions import CONFIG, faults_of, pinned_version, read_versions

from .conftest import PROJECT

EXPORT = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[1] + "/export", sys.argv[1] + "/tests/export"]
from rich.console import Console
from conftest import tiny_entry
from trireme_export.exporter import ExportOptions, export_entry
from trireme_export.progress import Reporter
console = Console(file=sys.stdout)
options = ExportOptions(repository=Path(sys.argv[3]), cache=Path(sys.argv[3]))
export_entry(tiny_entry(Path(sys.argv[2])), options, Reporter(console))
"""
INSTALLS = "golden samples"  # the phase after which a new version gets into the repository
DELAYS = random.Random(5)
PHASES = ("fetch checkpoint", "read checkpoint", "convert to ONNX")  # what follows each takes longer than the delay


@pytest.fixture
def repository(tmp_path):
    """A repository with another entry and a committed config of the one that will be exported."""
    folder = tmp_path / "repository"
    (folder / "other_network" / "1").mkdir(parents=True)
    (folder / "other_network" / "1" / "model.onnx").write_bytes(b"other")
    (folder / "tiny_network").mkdir()
    (folder / "tiny_network" / "config.pbtxt").write_text(f'{GENERATED}\nname: "tiny_network"')
    return folder


def kill_in_phase_after(repository, checkpoint, phase, delay_s):
    """Start an export, wait until `phase` is over, and kill it `delay_s` later; it may have ended by itself before."""
    print(f"killed {delay_s:.4f} s after {phase!r}")
    command = [sys.executable, "-u", "-c", EXPORT, str(PROJECT), str(checkpoint), str(repository)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}) as export:
        for line in export.stdout:
            if phase in line:
                break
        time.sleep(delay_s)
        export.send_signal(signal.SIGKILL)
    assert export.returncode in {0, -signal.SIGKILL}
    return export.returncode == 0


def check_killed(repository, checkpoint, phase, delay_s):
    before = hash_folder(repository)
    if kill_in_phase_after(repository, checkpoint, phase, delay_s):
        assert not list(faults_of(repository, "tiny", 1)), "what ended before it was killed is whole"
    else:
        assert hash_folder(repository) == before


def test_an_export_killed_while_it_converts_leaves_the_repository_as_it_was(repository, tiny_folder):
    check_killed(repository, tiny_folder, "read checkpoint", DELAYS.uniform(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_an_export_killed_anywhere_leaves_the_repository_as_it_was(repository, tiny_folder, phase):
    for _ in range(3):
        check_killed(repository, tiny_folder, phase, DELAYS.uniform(0, 0.5))


def check_killed_over(repository, checkpoint, phase, delay_s):
    """Kills an export of another version; the version before is in service, or the new one, and is whole."""
    (checkpoint / "README.md").write_text(str(delay_s))
    before = read_versions(repository, "tiny")
    kill_in_phase_after(repository, checkpoint, phase, delay_s)
    after = read_versions(repository, "tiny")
    assert after.active in {before.active, before.next}
    assert {pinned_version(repository / model / CONFIG) for model in entry_models("tiny")} == {after.active}
    assert not list(faults_of(repository, "tiny", after.active))
    assert not list(faults_of(repository, "tiny", before.active))


def export_whole(repository, checkpoint):
    command = [sys.executable, "-c", EXPORT, str(PROJECT), str(checkpoint), str(repository)]
    subprocess.run(command, check=True, capture_output=True)


def test_an_export_killed_while_it_installs_leaves_the_version_before_or_the_new_one(repository, tiny_folder):
    export_whole(repository, tiny_folder)
    check_killed_over(repository, tiny_folder, INSTALLS, DELAYS.uniform(0, 0.05))


@pytest.mark.slow
def test_an_export_killed_anywhere_leaves_the_version_before_or_the_new_one(repository, tiny_folder):
    export_whole(repository, tiny_folder)
    for phase in (*PHASES, *[INSTALLS] * 10):
        check_killed_over(repository, tiny_folder, phase, DELAYS.uniform(0, 0.05))
