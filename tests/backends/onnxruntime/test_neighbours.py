"""A network knows whether another process computes, whatever becomes of that process."""

import subprocess
import sys

import pytest
from trireme_network.neighbours import Neighbours

COMPUTE = """
import sys
from pathlib import Path
from trireme_network.neighbours import Neighbours
with Neighbours(Path(sys.argv[1])) as crowded:
    print(crowded, flush=True)
    sys.stdin.readline()
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "file").touch(mode=0o444)
    return tmp_path / "file"


@pytest.fixture
def other(file):
    """Another process that computes until it is told to stop."""
    command = [sys.executable, "-c", COMPUTE, str(file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    ) as process:
        process.crowded = process.stdout.readline().strip()
        yield process
        process.kill()


def crowded(file):
    with Neighbours(file) as answer:
        return answer


def test_alone_nobody_else_computes(file):
    assert not crowded(file)


def test_another_process_that_computes_is_seen_until_it_has_done(file, other):
    assert other.crowded == "False"
    assert crowded(file)
    other.stdin.write("\n")
    other.stdin.flush()
    other.stdout.readline()
    assert not crowded(file)


def test_a_killed_process_computes_no_more(file, other):
    other.kill()
    other.wait()
    assert not crowded(file)


def test_an_error_while_computing_leaves_nothing_behind(file):
    with pytest.raises(KeyError), Neighbours(file):
        raise KeyError
    assert not crowded(file)


def test_closing_the_file_elsewhere_does_not_hide_a_process(file):
    with Neighbours(file):
        file.read_bytes()
        assert crowded(file)
