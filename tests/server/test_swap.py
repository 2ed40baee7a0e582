"""Another version of an entry on a running server: it proves itself first, and no request is lost."""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from google.protobuf import json_format, text_format
from launching import Launcher, ensemble, fetch, parameters, probe, write_manifest
from tritonclient.grpc import model_config_pb2

pytestmark = pytest.mark.system

STEPS = ("tide_first", "tide_second")


def write_version(repository: Path, version: int, answer: str, golden: str | None = None, **changes) -> None:
    """A version of `tide`, which gives `answer` to everything; `golden` is what its manifest says it gives."""
    for name in (*STEPS, "tide"):
        (repository / name / str(version)).mkdir(parents=True)
    write_manifest(repository, "tide", "tide_second", {"oars": golden or answer}, version=version)
    pinned = {"version_policy": {"specific": {"versions": [version]}}}
    whole = ensemble(*STEPS)
    for step in whole["ensemble_scheduling"]["step"]:
        step["model_version"] = version
    _store(repository, "tide", version, whole | pinned)
    for name in STEPS:
        _store(repository, name, version, probe(parameters=parameters(answer=answer, load_s="0.3"), **pinned) | changes)


def _store(repository: Path, model: str, version: int, config: dict) -> None:
    message = json_format.ParseDict({"name": model, **config}, model_config_pb2.ModelConfig())
    (repository / "tide" / str(version) / f"{model}.pbtxt").write_text(text_format.MessageToString(message))


def serve_version(repository: Path, version: int) -> None:
    """As `trireme rollback` does it: in one rename."""
    for file in (repository / "tide" / str(version)).iterdir():
        os.utime(file)
    link = repository / "tide" / "active"
    link.with_name("new").symlink_to(str(version))
    link.with_name("new").rename(link)


@pytest.fixture
def tide(tmp_path: Path) -> Path:
    """Version 1 of `tide`, in service."""
    repository = tmp_path / "repository"
    write_version(repository, 1, "EBB")
    serve_version(repository, 1)
    (repository / "tide" / "config.pbtxt").symlink_to("active/tide.pbtxt")
    for name in STEPS:
        (repository / name / "config.pbtxt").symlink_to(f"../tide/active/{name}.pbtxt")
    return repository


def ask_grpc(address: str) -> Iterator[str]:
    text = triton_grpc.InferInput("text", [1], "BYTES")
    text.set_data_from_numpy(np.array([b"x"], dtype=object))
    with triton_grpc.InferenceServerClient(address) as client:
        while True:
            try:
                yield client.infer("tide", [text]).as_numpy("answer")[0].decode()
            except triton_grpc.InferenceServerException as error:
                yield f"failed: {error}"


@contextmanager
def callers(launcher: Launcher) -> Iterator[Counter]:
    """Four over HTTP and four over gRPC; what they were answered, and how often."""
    answers, ended = Counter(), threading.Event()

    def over_http() -> None:
        while not ended.is_set():
            status, text = launcher.ask("x", model="tide")
            answers[text if status == 200 else f"failed: {status} {text}"] += 1

    def over_grpc() -> None:
        for answer in ask_grpc(launcher.grpc):
            answers[answer] += 1
            if ended.is_set():
                return

    threads = [threading.Thread(target=target) for target in (over_http, over_grpc) * 4]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)


def wait_for_version(launcher: Launcher, version: int) -> None:
    launcher.wait_until(lambda: launcher.status()["versions"]["tide"] == version, 60, f"version {version}")


def unloading(launcher: Launcher) -> list[str]:
    """The models of which Triton still holds a version that it is to let go."""
    _, index = fetch(f"http://{launcher.http}/v2/repository/index", b"{}")
    return [model["name"] for model in json.loads(index) if model.get("state") == "UNLOADING"]


def test_no_request_is_lost_when_another_version_comes_into_service_and_when_it_goes_again(tide, launch):
    launcher = launch(tide)
    with callers(launcher) as answers:
        launcher.wait_until(lambda: answers["EBB"] > 50, 30, "requests")
        write_version(tide, 2, "FLOOD", input=[{"name": "text", "data_type": "TYPE_STRING", "dims": [-1]}])
        serve_version(tide, 2)
        wait_for_version(launcher, 2)
        launcher.wait_until(lambda: answers["FLOOD"] > 50, 30, "requests")  # those under way may still say the other
        answers.pop("EBB")
        launcher.wait_until(lambda: answers["FLOOD"] > 100, 30, "requests")
        assert not answers["EBB"]
        serve_version(tide, 1)
        wait_for_version(launcher, 1)
        launcher.wait_until(lambda: answers["EBB"] > 50, 30, "requests")
    assert set(answers) <= {"EBB", "FLOOD"}, answers
    launcher.wait_until(lambda: not unloading(launcher), 25, "the old versions to be gone")
    assert launcher.is_ready()
    assert launcher.status()["model_reloads"] == 0


def test_a_version_that_answers_its_golden_sample_wrongly_is_not_put_in_service(tide, launch):
    launcher = launch(tide)
    with callers(launcher) as answers:
        write_version(tide, 2, "FLOOD", golden="NEAP")
        serve_version(tide, 2)
        launcher.wait_until(lambda: launcher.status()["refused_versions"], 60, "the refusal")
    assert set(answers) == {"EBB"}
    refusal = launcher.status()["refused_versions"]["tide"]
    assert "wrong answer to a golden sample" in refusal
    assert "-> trireme export hf://fleet/tide@1 --name tide --force" in refusal
    assert "`trireme rollback tide --repository" in refusal
    assert "version 1 stays in service" in launcher.output
    assert launcher.status()["versions"] == {"tide": 1}
    assert launcher.is_ready()
    _, metrics = fetch(f"http://127.0.0.1:{launcher.ports[3]}/metrics")
    assert b'trireme_entry_version{entry="tide"} 1' in metrics
    assert b'trireme_version_refused{entry="tide"} 1' in metrics
    serve_version(tide, 1)
    launcher.wait_until(lambda: not launcher.status()["refused_versions"], 30, "the end of the refusal")


def test_files_that_are_not_as_exported_are_not_loaded(tide, launch):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD")
    (tide / "tide_second" / "2" / "model.bin").write_bytes(b"tampered")
    serve_version(tide, 2)
    launcher.wait_until(lambda: launcher.status()["refused_versions"], 60, "the refusal")
    assert "tide_second/2/model.bin has 8 bytes" in launcher.status()["refused_versions"]["tide"]
    assert launcher.ask("x", model="tide") == (200, "EBB")


@pytest.mark.parametrize(("golden", "answer"), [("FLOOD", "FLOOD"), ("NEAP", "EBB")], ids=["adopted", "refused"])
def test_what_is_loaded_again_is_the_version_in_service_and_not_the_one_on_disk(tide, launch, golden, answer):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD", golden=golden)
    serve_version(tide, 2)
    end = "version 2 is in service" if answer == "FLOOD" else "version 1 stays in service"
    launcher.wait_until(lambda: end in launcher.output, 60, "an end of the exchange")
    os.kill(launcher.stub("tide_second").pid, signal.SIGKILL)
    launcher.wait_until(lambda: not launcher.is_ready(), 30, "the dead stub to be noticed")
    launcher.wait_until_ready()
    assert launcher.ask("x", model="tide") == (200, answer)
    os.kill(launcher.server_pid(), signal.SIGKILL)
    launcher.wait_until(lambda: not launcher.is_ready(), 30, "the dead server to be noticed")
    launcher.wait_until_ready()
    assert launcher.ask("x", model="tide") == (200, answer)


def test_a_start_with_a_version_that_answers_wrongly_says_how_to_go_back(tide, launch):
    write_version(tide, 2, "FLOOD", golden="NEAP")
    serve_version(tide, 2)
    launcher = launch(tide, ready=False)
    assert launcher.process.wait(60) == 4
    assert "`trireme rollback tide --repository repository` goes back to version 1" in launcher.output
