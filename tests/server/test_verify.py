"""`trireme verify`: what is right, what is not, and the exit code of each."""

import contextlib
import http.server
import json
import socket
import threading
from dataclasses import dataclass, field

import pytest
from click.testing import CliRunner
from launching import decoupled, free_ports, probe, write_manifest, write_model
from trireme_server.commands import verify
from trireme_server.exit_codes import VerifyCode
from trireme_server.manifest import Tensor
from trireme_server.repository import read_repository
from trireme_server.triton_api import TritonRefused, TritonUnreachable
from trireme_server.verify import verify as verdicts_of
from trireme_server.verify_report import problem_lines
from trireme_server.verify_wires import GrpcWire, HttpWire, split_address


@dataclass(frozen=True)
class Capitals:
    """A server that says `text` in capitals, `wrong` when asked for `fail`."""

    protocol: str = "http"
    address: str = "127.0.0.1:1"
    served: bool = True
    errors: dict = field(default_factory=dict)  # text -> what asking for it raises

    def is_served(self, model):
        return self.served

    def asker(self, entry):
        return self._ask

    def _ask(self, entry, sample):
        (text,) = sample.inputs[0].values
        if text in self.errors:
            raise self.errors[text]
        return {"answer": Tensor("answer", "BYTES", (1,), (text.upper(),))}


def verdict(repository, wire=None, name="echo"):
    (one,) = verdicts_of(repository, [name], [wire or Capitals()])
    return one


def found(one):
    return [problem.found for problem in one.problems]


def test_right_answers_and_whole_files_are_verified(repository):
    one = verdict(repository)
    assert (one.code, one.replay.right, one.total, one.problems) == (VerifyCode.VERIFIED, 1, 1, ())


def test_every_wrong_answer_is_named_with_its_sample(repository):
    write_manifest(repository, "echo", "echo_second", {"oars": "OARS", "row": "ROWS", "sea": "SEES"})
    one = verdict(repository)
    assert (one.code, one.replay.right, one.total) == (VerifyCode.WRONG_ANSWER, 1, 3)
    assert found(one) == [
        "sample 2: answer is b'ROW' instead of b'ROWS'",
        "sample 3: answer is b'SEA' instead of b'SEES'",
    ]
    assert [each.found for each in one.replay.worst] == [1.0]


def test_an_error_in_place_of_an_answer_is_a_wrong_answer_and_the_next_sample_is_asked(repository):
    write_manifest(repository, "echo", "echo_second", {"oars": "OARS", "row": "ROW"})
    one = verdict(repository, Capitals(errors={b"oars": TritonRefused("no oars")}))
    assert (one.code, one.replay.right) == (VerifyCode.WRONG_ANSWER, 1)
    assert found(one) == ["sample 1 got an error: no oars"]


def test_a_server_that_goes_away_is_not_asked_on(repository):
    write_manifest(repository, "echo", "echo_second", {"oars": "OARS", "row": "ROW"})
    one = verdict(repository, Capitals(errors={b"oars": TritonUnreachable("gone")}))
    assert (one.code, one.replay.right) == (VerifyCode.NOT_ASKED, 0)
    assert found(one) == ["sample 1 got no answer: gone"]


def test_a_changed_file_outweighs_a_model_that_is_not_served(repository):
    (repository / "echo_second" / "1" / "model.bin").write_bytes(b"weights of MODEL.bin")
    one = verdict(repository, Capitals(served=False))
    assert one.code is VerifyCode.CHANGED
    assert found(one) == [
        "echo_second/1/model.bin has another content than was exported (sha256)",
        "the server at 127.0.0.1:1 does not serve it",
    ]


def test_a_sample_without_outputs_is_not_asked_and_not_right(repository):
    file = repository / "echo_second" / "1" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"golden": [{"inputs": [], "outputs": []}]}))
    one = verdict(repository)
    assert (one.code, one.replay.right, one.total) == (VerifyCode.CHANGED, 0, 1)


def test_a_problem_that_several_have_is_told_once(repository):
    (repository / "echo_second" / "1" / "model.bin").unlink()
    wires = [Capitals(served=False), Capitals("grpc", served=False)]
    lines = problem_lines(list(verdicts_of(repository, ["echo", "flow"], wires)))
    assert [line.partition(" -> ")[0] for line in lines] == [
        "echo: echo_second/1/model.bin is missing",
        "echo (http), flow (http): the server at 127.0.0.1:1 does not serve it",
        "echo (grpc), flow (grpc): the server at 127.0.0.1:1 does not serve it",
    ]


@pytest.mark.parametrize("address", ["", "host", "host:", "host:0", "host:99999", "http://host:1", "a@b:1", "b:1/v2"])
def test_an_address_is_a_host_and_a_port(address):
    with pytest.raises(ValueError, match="HOST:PORT"):
        split_address(address)


def test_an_ipv6_address_stands_in_brackets():
    assert split_address("[::1]:8000") == ("::1", 8000)


def test_over_http_a_decoupled_entry_is_not_asked(repository):
    flow = read_repository(repository).entries(["flow"])[0]
    assert HttpWire("127.0.0.1:1").asker(flow) is None
    assert GrpcWire("127.0.0.1:1").asker(flow) is not None


def test_an_entry_that_no_protocol_asked_for_serves_is_not_verified(repository):
    code, (line,), _ = run(repository, "flow", "--no-grpc")
    assert (code, line["ok"], line["samples"]) == (3, False, {"right": 0, "total": 1})
    assert "it was not asked" in line["problems"][0]["found"]
    assert line["problems"][0]["fix"] == "leave out --no-grpc"


def run(repository, *arguments):
    """Exit code, the JSON lines, and stderr."""
    result = CliRunner().invoke(verify, ["--repository", str(repository), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


@pytest.mark.parametrize("arguments", [["nobody"], ["echo_first"], ["--no-http", "--no-grpc"], ["--url", "x"], ["--x"]])
def test_a_wrong_command_line_is_a_usage_error(repository, arguments):
    code, lines, errors = run(repository, *arguments)
    assert (code, lines) == (2, [])
    assert "Usage" in errors


def test_a_server_that_is_not_there_is_named_with_the_option(repository):
    http, grpc = free_ports(2)
    code, lines, _ = run(repository, "echo", "--url", f"127.0.0.1:{http}", "--grpc-url", f"127.0.0.1:{grpc}")
    assert code == 3
    assert [line["samples"] for line in lines] == [{"right": 0, "total": 1}] * 2
    problems = [line["problems"][0] for line in lines]
    assert f"no Triton answers at 127.0.0.1:{http}" in problems[0]["found"]
    assert [problem["fix"].rpartition(" ")[2] for problem in problems] == ["--url", "--grpc-url"]


class Stranger(http.server.BaseHTTPRequestHandler):
    """Says yes to everything, and `server.answer` to a request."""

    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(self.server.answer)

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Inference-Header-Content-Length", self.server.header_length)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(
    ("answer", "header_length", "said"),
    [
        (b"hello", "5", "cannot be read as Triton's"),
        (b"{}", "2", "cannot be read as Triton's"),
        (
            b'{"outputs": [{"name": "answer", "datatype": "BYTES", "shape": [1], "data": [null]}]}',
            "83",
            "cannot be read",
        ),
        (b"[" * 200_000, "200000", "cannot be read as Triton's"),
        (
            b'{"outputs": [{"name": "answer", "datatype": "FP32", "shape": [1], "data": [1' + b"0" * 400 + b"]}]}",
            "480",
            "too large",
        ),
        (
            b'{"outputs": [{"name": "x", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 0}}]}',
            "101",
            "asked for as JSON",
        ),
        (b'{"outputs": []}', "15", "answer is missing"),
        (b"hello", "many", "no Triton answers"),
    ],
)
def test_a_server_that_is_no_triton_is_no_crash(repository, answer, header_length, said):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        server.answer, server.header_length = answer, header_length
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code, (line,), _ = run(repository, "echo", "--no-grpc", "--url", f"127.0.0.1:{server.server_port}")
        server.shutdown()
    assert code in (3, 4)
    assert said in line["problems"][0]["found"]


def test_a_server_that_takes_connections_and_says_nothing_is_not_waited_for(repository):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        code, lines, _ = run(repository, "echo", "--url", address, "--grpc-url", address)
    assert code == 3
    assert all("no Triton answers" in line["problems"][0]["found"] for line in lines)


@pytest.mark.system
class TestOnAServer:
    """One launcher, whose files the tests leave as they found them."""

    @pytest.fixture
    def addresses(self, serving):
        return "--url", serving.http, "--grpc-url", serving.grpc

    @pytest.fixture
    def folder(self, serving):
        return serving.run_folder.parent / "repository"

    def test_over_both_protocols_every_entry_answers(self, folder, addresses):
        code, lines, errors = run(folder, *addresses)
        assert (code, errors) == (0, "")
        assert [(line["entry"], line["protocol"], line["samples"]) for line in lines] == [
            ("echo", "http", {"right": 1, "total": 1}),
            ("echo", "grpc", {"right": 1, "total": 1}),
            ("flow", "http", None),
            ("flow", "grpc", {"right": 1, "total": 1}),
        ]
        assert all(line["ok"] for line in lines)

    def test_over_both_protocols_a_wrong_answer_is_found(self, folder, addresses):
        with changed(folder / "echo_second" / "1" / "manifest.json") as file:
            write_manifest(folder, "echo", "echo_second", {"oars": "OAR"}, "model.bin")
            assert file.exists()
            code, lines, _ = run(folder, "echo", *addresses)
        assert code == 4
        assert {line["problems"][0]["found"] for line in lines} == {"sample 1: answer is b'OARS' instead of b'OAR'"}

    def test_a_changed_artifact_is_named_although_the_answers_are_right(self, folder, addresses):
        with changed(folder / "echo_second" / "1" / "model.bin") as file:
            file.write_bytes(b"other weights")
            code, lines, _ = run(folder, "echo", "--no-grpc", *addresses)
        assert code == 5
        (line,) = lines
        assert line["samples"] == {"right": 1, "total": 1}
        assert line["problems"][0]["found"] == "echo_second/1/model.bin has 13 bytes instead of 20"

    @pytest.mark.parametrize("model", [probe(), decoupled()])
    def test_a_model_that_is_not_served_is_named(self, tmp_path, addresses, model):
        write_model(tmp_path / "other", "rudder", model)
        write_manifest(tmp_path / "other", "rudder", "rudder", {"oars": "OARS"})
        code, lines, _ = run(tmp_path / "other", "--no-http", *addresses)
        assert code == 3
        assert "does not serve it" in lines[0]["problems"][0]["found"]


@contextlib.contextmanager
def changed(file):
    before = file.read_bytes()
    try:
        yield file
    finally:
        file.write_bytes(before)
