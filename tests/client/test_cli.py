"""The command line without a server: which subcommands there are, how it starts and how it ends."""

import subprocess
import sys
from pathlib import Path

import pytest
from installed import environment, run, write_metadata
from standin_server import free_ports

HEAVY = ("numpy", "tritonclient", "grpc", "gevent", "aiohttp", "torch", "onnx", "onnxruntime", "transformers")


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    write_metadata(
        tmp_path,
        entry_points={
            "ghost": "nowhere:command [ghost]",
            "shadow": "trireme_client.commands:health [ghost]",
            "twin": "trireme_client.commands:health [present]",
            "outdated": "nowhere:command [outdated]",
        },
        extras={
            "ghost": ["there-is-no-such-package>=1"],
            "present": ["click", "there-is-no-such-package; python_version < '3'"],
            "outdated": ["click<1"],
        },
    )
    return tmp_path


def test_help_lists_the_commands_whose_extra_is_installed(metadata: Path) -> None:
    result = run(metadata, "--help")
    assert result.returncode == 0
    listed = {line.split()[0] for line in result.stdout.decode().partition("Commands:")[2].splitlines() if line.strip()}
    assert {"embed", "classify", "classify-image", "embed-image", "models", "health", "twin"} <= listed
    assert not {"ghost", "shadow", "outdated"} & listed


@pytest.mark.parametrize(("name", "missing"), [("ghost", "there-is-no-such-package>=1"), ("outdated", "click<1")])
def test_a_command_whose_extra_is_missing_says_how_to_get_it(metadata: Path, name: str, missing: str) -> None:
    result = run(metadata, name, "--anything")
    assert result.returncode == 2
    assert f"`trireme {name}` needs {missing}: pip install 'trireme[{name}]'" in result.stderr.decode()


def test_help_needs_no_extra(metadata: Path) -> None:
    result = run(metadata, "shadow", "--help")
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"Usage: trireme shadow" in result.stdout


def test_a_command_that_not_even_its_module_is_there_for_says_how_to_get_it_instead_of_help(metadata: Path) -> None:
    result = run(metadata, "outdated", "--help")
    assert result.returncode == 2
    assert "pip install 'trireme[outdated]'" in result.stderr.decode()


def test_an_unknown_command_is_wrong_usage(metadata: Path) -> None:
    result = run(metadata, "fly")
    assert result.returncode == 2
    assert b"fly" in result.stderr


def test_the_version_is_that_of_the_distribution(metadata: Path) -> None:
    assert run(metadata, "--version").stdout == b"trireme 0.1.0\n"


def test_help_imports_nothing_heavy(metadata: Path) -> None:
    script = f"""
import sys
from trireme_client.cli import trireme
for arguments in (["--help"], ["--version"], ["embed", "--help"], ["models", "--help"]):
    try:
        trireme(arguments)
    except SystemExit:
        pass
loaded = [name for name in {HEAVY} if name in sys.modules]
sys.exit(f"imported {{loaded}}" if loaded else 0)
"""
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment(metadata), capture_output=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr


def test_a_server_that_is_not_there_is_exit_status_3(metadata: Path) -> None:
    for protocol in ("grpc", "http"):
        result = run(metadata, "embed", "text", "--url", f"{protocol}://127.0.0.1:{free_ports(1)[0]}", "--timeout", "1")
        assert (result.returncode, result.stdout) == (3, b"")
        assert result.stderr.startswith(b"Error: ")
        assert result.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["embed", "text", "--url", "ftp://host"],
        ["embed", "--file", "missing"],
        ["health", "--timeout", "x"],
        ["health", "--timeout", "nan"],
    ],
)
def test_wrong_usage_is_exit_status_2(metadata: Path, arguments: list[str]) -> None:
    assert run(metadata, *arguments).returncode == 2


def test_a_bug_is_one_line_and_with_debug_a_traceback(metadata: Path, tmp_path: Path) -> None:
    (tmp_path / "nowhere.py").write_text("import click\ncommand = click.Command('b', callback=lambda: 1 / 0)\n")
    info = tmp_path / "trireme-0.1.0.dist-info" / "entry_points.txt"
    info.write_text("[trireme.commands]\nbroken = nowhere:command\n")
    plain, debug = run(metadata, "broken"), run(metadata, "--debug", "broken")
    assert plain.returncode == debug.returncode == 1
    assert plain.stderr.startswith(b"Error: unexpected ZeroDivisionError")
    assert b"Traceback" not in plain.stderr
    assert b"Traceback" in debug.stderr


def test_every_command_of_the_client_is_named_like_its_entry_point(metadata: Path) -> None:
    for name in ("embed", "classify", "extract", "rerank", "classify-image", "embed-image", "models", "health"):
        assert f" {name} [OPTIONS]" in run(metadata, name, "--help").stdout.decode()
