"""The command line against a real server: pipes, terminals, files and exit statuses."""

import contextlib
import hashlib
import json
import os
import pty
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from installed import RUN, environment, run, write_metadata
from standin_server import StandinServer

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metadata")
    write_metadata(folder)
    return folder


@pytest.fixture
def trireme(metadata: Path, server: StandinServer) -> Callable[..., Any]:
    def call(*arguments: str, stdin: bytes = b"", protocol: str = "grpc") -> subprocess.CompletedProcess[bytes]:
        return run(metadata, *arguments, stdin=stdin, TRIREME_URL=server.url(protocol))

    return call


@pytest.fixture
def grpc_environment(metadata: Path, server: StandinServer) -> dict[str, str]:
    return environment(metadata, TRIREME_URL=server.url("grpc"), TERM="dumb")


def json_lines(output: bytes) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def expected_vector(text: bytes) -> list[float]:
    return [float(byte) for byte in hashlib.sha256(text).digest()[:8]]


def on_terminal(command: list[str], env: dict[str, str], **streams: Any) -> tuple[int, str]:
    """Exit status of the command, and what it wrote to a terminal: those of its streams that are None."""
    controller, terminal = pty.openpty()
    ends = {name: terminal if end is None else end for name, end in streams.items()}
    process = subprocess.Popen(command, env=env, **ends)
    os.close(terminal)
    written = b""
    with contextlib.suppress(OSError):  # the terminal is gone when the process is
        while data := os.read(controller, 65536):
            written += data
    os.close(controller)
    return process.wait(30), written.decode()


def test_arguments_become_json_lines_in_a_pipe(trireme: Callable[..., Any], protocol: str) -> None:
    result = trireme("embed", "one", "two", protocol=protocol)
    assert (result.returncode, result.stderr) == (0, b"")
    assert json_lines(result.stdout) == [
        {"text": "one", "embedding": expected_vector(b"one"), "windows": 1},
        {"text": "two", "embedding": expected_vector(b"two"), "windows": 1},
    ]


def test_every_line_of_stdin_gets_a_line_in_order(trireme: Callable[..., Any]) -> None:
    result = trireme("embed", stdin=b"first\n\nthird \xe6\xb1\x89\r\n  last")
    assert [line["text"] for line in json_lines(result.stdout)] == ["first", "", "third 汉", "  last"]
    assert json_lines(result.stdout)[2]["embedding"] == expected_vector("third 汉".encode())


def test_many_lines_stay_in_order(trireme: Callable[..., Any]) -> None:
    texts = [f"line {number} {'x' * (number % 50)}" for number in range(3000)]
    result = trireme("classify", stdin="\n".join(texts).encode())
    assert [line["text"] for line in json_lines(result.stdout)] == texts


def test_files_are_read_after_the_arguments(trireme: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("from the file\n")
    result = trireme("classify", "argument", "--file", str(tmp_path / "texts"), "--file", "-", stdin=b"attack\n")
    assert [(line["text"], line["label"], line["score"]) for line in json_lines(result.stdout)] == [
        ("argument", "safe", 0.75),
        ("from the file", "safe", 0.75),
        ("attack", "unsafe", 0.9),
    ]


def test_entities_are_listed_under_their_text(trireme: Callable[..., Any]) -> None:
    result = trireme("extract", "--model", "ner", stdin="nobody\nÜlo rows\n".encode())
    assert json_lines(result.stdout) == [
        {"text": "nobody", "entities": [], "windows": 1},
        {
            "text": "Ülo rows",
            "entities": [{"label": "NAME", "score": 0.75, "start": 0, "end": 3, "text": "Ülo"}],
            "windows": 1,
        },
    ]
    assert b"lo (NAME)" in trireme("extract", "--model", "ner", "--table", "Ülo rows").stdout


def test_documents_are_listed_best_first(trireme: Callable[..., Any]) -> None:
    options = ("--query", "oars", "--model", "rank")
    result = trireme("rerank", *options, stdin=b"row\noars\n\nrefuse\n")
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr == b"Error: stdin, line 4: text: refused as asked; all else is allowed\n"
    result = trireme("rerank", *options, "--keep-going", "--top-k", "2", stdin=b"row\noars\n\nrefuse\n")
    assert result.returncode == 1
    assert json_lines(result.stdout) == [
        {"text": "oars", "index": 1, "score": 1.0, "windows": 1},
        {"text": "row", "index": 0, "score": 0.5, "windows": 1},
        {"text": "refuse", "error": "text: refused as asked; all else is allowed"},
    ]
    assert trireme("rerank", *options, "a", "b").returncode == 0


def test_a_task_without_a_default_model_asks_for_one(trireme: Callable[..., Any]) -> None:
    result = trireme("extract", "a text")
    assert result.returncode == 2
    assert b"--model" in result.stderr


def test_images_are_named_by_their_paths(trireme: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"JPEG")
    result = trireme("classify-image", stdin=f"{tmp_path / 'a.jpg'}\n".encode())
    (line,) = json_lines(result.stdout)
    assert line["file"] == str(tmp_path / "a.jpg")
    assert line["labels"][0] == {"label": "JPEG", "score": 0.5}


def test_images_become_vectors_of_the_model_that_is_named(trireme: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"JPEG")
    result = trireme("embed-image", "--model", "pictures", str(tmp_path / "a.jpg"))
    assert json_lines(result.stdout) == [{"file": str(tmp_path / "a.jpg"), "embedding": expected_vector(b"JPEG")}]
    unnamed = trireme("embed-image", str(tmp_path / "a.jpg"))
    assert unnamed.returncode == 2
    assert b"Missing option '--model'" in unnamed.stderr


def test_a_refused_line_ends_the_run_with_its_number_and_status_1(trireme: Callable[..., Any]) -> None:
    result = trireme("embed", stdin=b"fine\nrefuse\nfine too\n")
    assert result.returncode == 1
    assert [line["text"] for line in json_lines(result.stdout)] == ["fine"]
    assert result.stderr == b"Error: stdin, line 2: text: refused as asked; all else is allowed\n"


def test_a_line_that_is_not_utf8_is_named_with_what_is_wrong_with_it(trireme: Callable[..., Any]) -> None:
    result = trireme("embed", stdin="fine\nÜlo ".encode() + b"\xfff\n")
    assert result.returncode == 1
    assert result.stderr == b"Error: stdin, line 2: text: not UTF-8: byte 0xff after 4 characters\n"


def test_a_refused_image_is_named_by_its_file(trireme: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_bytes(b"refuse")
    result = trireme("classify-image", str(file), str(tmp_path / "x.jpg"))
    assert result.returncode == 1
    assert result.stderr.startswith(f"Error: {str(file)!r}, argument 1: ".encode())


def test_the_http_port_asked_over_grpc_is_told_from_a_server_that_is_gone(
    trireme: Callable[..., Any], server: StandinServer
) -> None:
    result = trireme("embed", "text", "--protocol", "grpc", "--url", server.url("http").removeprefix("http://"))
    assert result.returncode == 3
    assert b"is this the gRPC port? HTTP's is asked with http://HOST:PORT" in result.stderr


def test_keep_going_prints_what_was_refused_and_does_the_rest(trireme: Callable[..., Any]) -> None:
    result = trireme("embed", "--keep-going", stdin=b"fine\nrefuse\n\xff\nfine too\n")
    assert result.returncode == 1
    assert ["error" in line for line in json_lines(result.stdout)] == [False, True, True, False]
    assert result.stderr == b"Error: refused items: 2\n"


def test_classify_can_fail_on_a_label(trireme: Callable[..., Any]) -> None:
    assert trireme("classify", "good", "--fail-on", "unsafe").returncode == 0
    assert trireme("classify", "attack", "good", "--fail-on", "unsafe").returncode == 4
    assert trireme("classify", "attack", "--fail-on", "UNSAFE").returncode == 4


def test_an_unknown_model_is_exit_status_1(trireme: Callable[..., Any], protocol: str) -> None:
    result = trireme("embed", "text", "--model", "nothing", protocol=protocol)
    assert result.returncode == 1
    assert b"nothing" in result.stderr


def test_models_are_listed_and_described(trireme: Callable[..., Any]) -> None:
    listed = json_lines(trireme("models").stdout)
    assert {model["name"]: model["state"] for model in listed}["guard"] == "READY"
    (described,) = json_lines(trireme("models", "embed").stdout)
    assert described["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1, 1]}]
    assert "out  embedding" in trireme("models", "embed", "--table").stdout.decode()


def test_health_says_ready(trireme: Callable[..., Any]) -> None:
    result = trireme("health")
    assert (result.returncode, json_lines(result.stdout)) == (0, [{"live": True, "ready": True}])


def test_a_terminal_gets_a_table(grpc_environment: dict[str, str]) -> None:
    status, shown = on_terminal([*RUN, "classify", "good day", "attack"], grpc_environment, stdout=None)
    header, _, first, second = [line.split() for line in shown.splitlines() if line.strip()]
    assert (status, header) == (0, ["text", "label", "score", "windows"])
    assert (first, second) == (["good", "day", "safe", "0.7500", "1"], ["attack", "unsafe", "0.9000", "1"])


def test_a_text_cannot_write_to_the_terminal_what_is_not_text(grpc_environment: dict[str, str]) -> None:
    _, shown = on_terminal([*RUN, "classify", "red \x1b[31m [bold]"], grpc_environment, stdout=None)
    assert "\x1b[31m" not in shown
    assert "[bold]" in shown


def test_a_terminal_gets_json_lines_if_asked(grpc_environment: dict[str, str]) -> None:
    _, shown = on_terminal([*RUN, "health", "--json"], grpc_environment, stdout=None)
    assert json.loads(shown) == {"live": True, "ready": True}


def test_progress_is_shown_when_stderr_is_a_terminal_and_stdout_is_not(
    grpc_environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "texts").write_text("some text\n" * 200)
    with open(tmp_path / "out", "wb") as out:
        command = [*RUN, "classify", "--file", str(tmp_path / "texts")]
        status, shown = on_terminal(command, {**grpc_environment, "TERM": "xterm"}, stdout=out, stderr=None)
    assert status == 0
    assert "200 done" in shown
    assert len((tmp_path / "out").read_bytes().splitlines()) == 200


def test_a_reader_that_leaves_ends_the_run_in_silence(grpc_environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*RUN, "classify"], env=grpc_environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdin.write(b"one\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["text"] == "one"  # a slow pipe is answered line by line
    process.stdout.close()
    process.stdin.write(b"two\n")
    process.stdin.flush()
    assert process.wait(30) == 141
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()


def test_an_output_that_is_closed_or_full_is_no_bug(grpc_environment: dict[str, str]) -> None:
    run = {"env": grpc_environment, "shell": True, "capture_output": True, "timeout": 60}
    closed = subprocess.run(f"{shlex.join(RUN)} classify one >&-", check=False, **run)
    assert (closed.returncode, closed.stderr) == (0, b"")
    full = subprocess.run(f"{shlex.join(RUN)} classify one >/dev/full", check=False, **run)
    assert (full.returncode, full.stderr) == (1, b"Error: [Errno 28] No space left on device\n")


def test_ctrl_c_ends_the_run_with_status_130(grpc_environment: dict[str, str]) -> None:
    # a shell starts background jobs with SIGINT ignored, and so may be the tests themselves
    command = ["env", "--default-signal=INT", *RUN, "classify"]
    process = subprocess.Popen(
        command, env=grpc_environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"one\n")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in errors
