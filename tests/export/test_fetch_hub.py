"""The hub's own client against a small hub on this machine: revisions become commits, and a commit is fetched once."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import huggingface_hub.constants
import pytest
from trireme_export.catalogue import Source
from trireme_export.errors import SourceUnavailable
from trireme_export.fetch import fetch

COMMIT = "c" * 40
FILES = {"config.json": b"{}", "model.safetensors": b"weights", "run_me.py": b"print('no')"}


class Hub(BaseHTTPRequestHandler):
    """The three calls that the client makes."""

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, *, body):
        path = self.path.split("?")[0]
        if path in ("/api/models/org/name/revision/main", f"/api/models/org/name/revision/{COMMIT}"):
            content = {"id": "org/name", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]}
            return self.send(json.dumps(content).encode(), "application/json", body)
        if path.startswith(f"/api/models/org/name/tree/{COMMIT}"):
            tree = [{"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in FILES.items()]
            return self.send(json.dumps(tree).encode(), "application/json", body)
        name = path.rpartition("/")[2]
        if path.startswith(f"/org/name/resolve/{COMMIT}/") and name in FILES:
            return self.send(FILES[name], "application/octet-stream", body)
        return self.send_error(404)

    def send(self, content, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format, *args):
        """Quiet."""


@pytest.fixture
def hub(monkeypatch, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    monkeypatch.setattr(
        huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", address)
    yield server
    server.shutdown()
    server.server_close()


def ignore(done, total):
    """Nobody watches."""


def test_a_branch_becomes_the_commit_it_stands_for_and_code_is_not_fetched(hub, tmp_path):
    checkpoint = fetch(Source(uri="hf://org/name@main"), tmp_path, ignore)
    assert checkpoint.uri == f"hf://org/name@{COMMIT}"
    assert sorted(checkpoint.files) == ["config.json", "model.safetensors"]


def test_a_commit_that_is_there_needs_no_hub(hub, tmp_path):
    source = Source(uri=f"hf://org/name@{COMMIT}")
    first = fetch(source, tmp_path, ignore)
    hub.shutdown()
    assert fetch(source, tmp_path, ignore) == first


def test_a_revision_that_is_not_there_is_a_clear_error_and_leaves_nothing(hub, tmp_path):
    with pytest.raises(SourceUnavailable, match=r"hf://org/name@other"):
        fetch(Source(uri="hf://org/name@other"), tmp_path, ignore)
    assert not any(tmp_path.rglob("*.json"))
