"""A pickle is read where it can do no harm, or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from trireme_export import sandbox
from trireme_export.checkpoint import open_checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.pickle_conversion import convert_pickle
from trireme_export.pickle_worker import Refused, named_tensors
from trireme_export.weights import read_weights


class RunsCode:
    """Unpickling this runs a shell."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def saved(path, content):
    torch.save(content, path)
    return path


def test_tensors_survive_the_conversion_exactly(tmp_path):
    tensors = {
        "weight": torch.randn(3, 4),
        "steps": torch.tensor(7),
        "half": torch.randn(5).half(),
        "view": torch.randn(4, 3).T,
    }
    converted = load_file(
        convert_pickle(saved(tmp_path / "model.pth", {"state_dict": tensors}), "1" * 64, tmp_path / "cache")
    )
    assert converted.keys() == tensors.keys()
    assert all(torch.equal(converted[name], tensor) for name, tensor in tensors.items())


def test_a_pickle_is_converted_once(tmp_path):
    path = saved(tmp_path / "model.pth", {"weight": torch.ones(2)})
    first = convert_pickle(path, "1" * 64, tmp_path / "cache")
    path.unlink()
    assert convert_pickle(path, "1" * 64, tmp_path / "cache") == first


def test_a_pickle_that_would_run_code_is_refused_and_does_not_run_it(tmp_path):
    trace = tmp_path / "was-here"
    path = saved(tmp_path / "evil.pth", {"weight": torch.ones(2), "more": RunsCode(f"touch {trace}")})
    with pytest.raises(CheckpointRefused, match=r"would run code.*system"):
        convert_pickle(path, "2" * 64, tmp_path / "cache")
    assert not trace.exists()
    assert not (tmp_path / "cache" / "converted" / ("2" * 64)).exists()


@pytest.mark.parametrize("content", [{"weight": "text"}, [torch.ones(2)], {}, {"weight": {"nested": torch.ones(2)}}])
def test_a_pickle_of_something_else_than_tensors_is_refused(content):
    with pytest.raises(Refused, match=r"it holds|not a tensor"):
        named_tensors(content)


def test_a_pickle_is_refused_with_advice_unless_it_is_allowed(tmp_path):
    saved(tmp_path / "model.pth", {"weight": torch.ones(2)})
    checkpoint = open_checkpoint("folder", tmp_path)
    with pytest.raises(CheckpointRefused, match="--allow-pickle"):
        read_weights(checkpoint, tmp_path)


# Each is run after the sandbox is closed, and must raise PermissionError or find no network.
FORBIDDEN = {
    "a socket": "import socket; socket.socket()",
    "a unix socket": "import socket; socket.socket(socket.AF_UNIX)",
    "a program": "import os; os.execv('/bin/true', ['true'])",
    "a shell": "import subprocess; subprocess.run(['/bin/true'], check=True)",
    "writing": "open('{folder}/new', 'w')",
    "appending": "open('{folder}/old', 'a')",
    "deleting": "import os; os.unlink('{folder}/old')",
    "renaming": "import os; os.rename('{folder}/old', '{folder}/other')",
    "a folder": "import os; os.mkdir('{folder}/sub')",
    "permissions": "import os; os.chmod('{folder}/old', 0o777)",
    "cutting": "import os; os.truncate('{folder}/old', 0)",
    "a link": "import os; os.symlink('/etc', '{folder}/link')",
}


@pytest.mark.parametrize("attempt", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_the_sandbox_forbids(tmp_path, attempt):
    (tmp_path / "old").write_text("kept")
    program = f"""
import importlib.util, json
spec = importlib.util.spec_from_file_location("sandbox", {sandbox.__file__!r})
module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
module.leave_network(); module.limit_resources(4 << 30, 10)
assert module.filter_system_calls()
assert open({str(tmp_path / "old")!r}).read() == "kept"
try:
    exec({attempt.format(folder=tmp_path)!r})
except PermissionError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "refused\n", done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]
    assert (tmp_path / "old").read_text() == "kept"


def test_the_sandbox_says_what_it_enforces(tmp_path):
    folder = convert_pickle(saved(tmp_path / "m.pth", {"weight": torch.ones(2)}), "4" * 64, tmp_path / "cache").parent
    enforced = Path(folder / "sandbox.json").read_text()
    assert "network" in enforced
    assert "read-only" in enforced
