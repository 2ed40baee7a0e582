"""Another version of an entry on a running server: it proves itself first, and no request is lost."""

import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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


def write_version(
    repository: Path, version: int, answer: str, golden: str | None = None, own: dict[str, str] | None = None, **changes
) -> None:
    """A version of `tide`, which gives `answer` to everything; `golden` is what its manifest says it gives.

    `own` are parameters of its steps, `changes` other parts of their configs.
    """
    told = parameters(**{"answer": answer, "load_s": "0.3"} | (own or {}))
    for name in (*STEPS, "tide"):
        (repository / name / str(version)).mkdir(parents=True)
    write_manifest(repository, "tide", "tide_second", {"oars": golden or answer}, version=version)
    pinned = {"version_policy": {"specific": {"versions": [version]}}}
    whole = ensemble(*STEPS)
    for step in whole["ensemble_scheduling"]["step"]:
        step["model_version"] = version
    _store(repository, "tide", version, whole | pinned)
    for name in STEPS:
        _store(repository, name, version, probe(parameters=told, **pinned) | changes)


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


class Answers:
    """What callers were answered, in the order of arrival; each thread appends to a list, which loses nothing."""

    def __init__(self) -> None:
        self._all: list[str] = []
        self._seen = 0

    def add(self, answer: str) -> None:
        self._all.append(answer)

    def forget(self) -> None:
        """Counts from here on; `kinds` still knows all."""
        self._seen = len(self._all)

    def __getitem__(self, answer: str) -> int:
        return self._all[self._seen :].count(answer)

    @property
    def kinds(self) -> set[str]:
        return set(self._all)


@contextmanager
def callers(launcher: Launcher) -> Iterator[Answers]:
    """Four over HTTP and four over gRPC; what they were answered, and how often."""
    answers, ended = Answers(), threading.Event()

    def over_http() -> None:
        while not ended.is_set():
            status, text = launcher.ask("x", model="tide")
            answers.add(text if status == 200 else f"failed: {status} {text}")

    def over_grpc() -> None:
        for answer in ask_grpc(launcher.grpc):
            answers.add(answer)
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
            assert not thread.is_alive(), "a request hangs"


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
        launcher.wait_until(lambda: answers["FLOOD"] > 0, 30, "the first of its answers to a caller")
        time.sleep(1)  # for what was asked before the switch
        answers.forget()
        launcher.wait_until(lambda: answers["FLOOD"] > 50, 30, "requests")
        assert not answers["EBB"]
        serve_version(tide, 1)
        wait_for_version(launcher, 1)
        launcher.wait_until(lambda: answers["EBB"] > 50, 30, "requests")
    assert answers.kinds <= {"EBB", "FLOOD"}
    launcher.wait_until(lambda: not unloading(launcher), 25, "the old versions to be gone")
    assert launcher.is_ready()
    assert launcher.status()["model_reloads"] == 0


def unreadable(repository: Path) -> None:
    (repository / "tide" / "2" / "tide.pbtxt").write_text("garbage {")


def without_samples(repository: Path) -> None:
    file = repository / "tide_second" / "2" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"golden": []}))


@pytest.mark.parametrize(("spoil", "reason"), [(unreadable, "config.pbtxt"), (without_samples, "golden samples")])
def test_a_version_that_cannot_prove_itself_is_refused(tide, launch, spoil, reason):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD")
    spoil(tide)
    serve_version(tide, 2)
    launcher.wait_until(lambda: launcher.status()["refused_versions"], 30, "the refusal")
    assert reason in launcher.status()["refused_versions"]["tide"]
    assert launcher.ask("any", "tide") == (200, "EBB")
    serve_version(tide, 1)
    launcher.wait_until(lambda: not launcher.status()["refused_versions"], 30, "the end of the refusal")


def test_a_version_that_answers_its_golden_sample_wrongly_is_not_put_in_service(tide, launch):
    launcher = launch(tide)
    with callers(launcher) as answers:
        write_version(tide, 2, "FLOOD", golden="NEAP")
        serve_version(tide, 2)
        launcher.wait_until(lambda: launcher.status()["refused_versions"], 60, "the refusal")
    assert answers.kinds == {"EBB"}
    assert "wrong answer to a golden sample" in launcher.status()["refused_versions"]["tide"]
    assert "`trireme rollback tide --to 1 --repository repository`" in launcher.status()["refused_versions"]["tide"]
    assert "version 1 stays in service" in launcher.output
    assert ".next" not in launcher.output
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
    launcher.wait_until(lambda: len(launcher.stubs()) == len(STEPS), 30, "the end of the other version's stubs")
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


def has_candidates(launcher: Launcher) -> bool:
    return any(stub.model.endswith(".next") for stub in launcher.stubs())


def exchange_is_over(launcher: Launcher) -> None:
    launcher.wait_until(lambda: launcher.is_ready() and not has_candidates(launcher), 60, "the end of the exchange")


def test_a_request_that_is_long_in_one_step_finds_the_next_step_of_its_version(tide, launch):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD")
    serve_version(tide, 2)
    launcher.wait_until(lambda: "it has to prove itself" in launcher.output, 30, "the beginning")
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(launcher.ask, "work:10", "tide")
        wait_for_version(launcher, 2)
        assert not asked.done(), "it was to run beyond the switch"
        assert asked.result() == (200, "EBB")
    exchange_is_over(launcher)
    launcher.wait_until(lambda: len(launcher.stubs()) == len(STEPS), 30, "the end of the stubs of version 1")


@pytest.mark.slow
def test_a_version_that_is_broken_is_rescued_by_the_one_put_in_service_instead(tide, launch, tmp_path):
    mark = tmp_path / "die"
    write_version(tide, 2, "FLOOD", own={"die_when": str(mark)})
    serve_version(tide, 2)
    launcher = launch(tide, "--max-restarts", "20")
    mark.touch()
    os.kill(launcher.stub("tide_first").pid, signal.SIGKILL)
    launcher.wait_until(lambda: not launcher.is_ready(), 30, "the dead stub to be noticed")
    serve_version(tide, 1)
    wait_for_version(launcher, 1)
    exchange_is_over(launcher)
    assert launcher.ask("x", model="tide") == (200, "EBB")


def test_a_version_is_not_refused_for_a_process_that_was_killed(tide, launch):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD", own={"load_s": "4"})
    serve_version(tide, 2)
    launcher.wait_until(lambda: launcher.stubs("tide_second.next"), 60, "the candidate")
    time.sleep(1)  # until Triton has heard of it: then it notices its end by itself
    os.kill(launcher.stub("tide_second.next").pid, signal.SIGKILL)
    wait_for_version(launcher, 2)
    assert launcher.status()["server_restarts"] == 0
    assert launcher.ask("x", model="tide") == (200, "FLOOD")


def test_a_run_folder_that_cannot_be_written_refuses_the_version_and_nothing_else(tide, launch):
    launcher = launch(tide)
    shown = launcher.run_folder / f"serve-{launcher.ports[0]}" / "models"
    (shown / "tide_second.next").write_text("in the way")
    write_version(tide, 2, "FLOOD")
    serve_version(tide, 2)
    launcher.wait_until(lambda: launcher.status()["refused_versions"], 60, "the refusal")
    assert launcher.ask("x", model="tide") == (200, "EBB")
    assert launcher.is_ready()
    assert not has_candidates(launcher)


@pytest.mark.slow
def test_what_does_not_load_under_its_own_name_is_answered_by_the_candidates_until_it_does(tide, launch, tmp_path):
    mark = tmp_path / "fail"
    mark.touch()
    launcher = launch(tide, "--max-restarts", "20")
    with callers(launcher) as answers:
        write_version(tide, 2, "FLOOD", own={"fail_as": "tide_first", "fail_while": str(mark)})
        serve_version(tide, 2)
        wait_for_version(launcher, 2)
        launcher.wait_until(lambda: not launcher.is_ready(), 60, "the fault")
        assert "tide_first, tide_second: model 'tide_first' did not load" in launcher.output
        assert launcher.status()["model_reloads"] == len(STEPS)
        mark.unlink()
        exchange_is_over(launcher)
        launcher.wait_until(lambda: answers["FLOOD"] > 50, 30, "requests")
    assert answers.kinds <= {"EBB", "FLOOD"}
    serve_version(tide, 1)
    wait_for_version(launcher, 1)


@pytest.mark.slow
def test_a_stub_that_dies_while_its_version_takes_its_name_is_noticed_and_replaced(tide, launch):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD", own={"load_s": "4"})
    serve_version(tide, 2)
    wait_for_version(launcher, 2)
    os.kill(launcher.stub("tide_second.next").pid, signal.SIGKILL)
    launcher.wait_until(lambda: not launcher.is_ready(), 3, "the dead stub to be noticed")
    exchange_is_over(launcher)
    assert launcher.ask("x", model="tide") == (200, "FLOOD")


@pytest.mark.slow
def test_a_stop_while_a_version_takes_its_name_lets_its_requests_end(tide, launch):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD", own={"load_s": "4"})
    serve_version(tide, 2)
    wait_for_version(launcher, 2)
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(launcher.ask, "work:8", "tide")
        time.sleep(0.5)
        assert launcher.stop() == 0
        assert asked.result() == (200, "FLOOD")


@pytest.mark.slow
def test_a_server_that_dies_while_a_version_takes_its_name_comes_back_with_it(tide, launch):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD", own={"load_s": "2"})
    serve_version(tide, 2)
    wait_for_version(launcher, 2)
    os.kill(launcher.server_pid(), signal.SIGKILL)
    launcher.wait_until(lambda: not launcher.is_ready(), 30, "the dead server to be noticed")
    launcher.wait_until_ready()
    assert launcher.ask("x", model="tide") == (200, "FLOOD")
    serve_version(tide, 1)
    wait_for_version(launcher, 1)


@pytest.mark.slow
def test_a_stub_that_dies_while_another_version_is_proved_is_replaced_at_once(tide, launch):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD", own={"load_s": "12"})
    serve_version(tide, 2)
    launcher.wait_until(lambda: has_candidates(launcher), 30, "the beginning")
    os.kill(launcher.stub("tide_second").pid, signal.SIGKILL)
    launcher.wait_until(lambda: not launcher.is_ready(), 10, "the dead stub to be noticed")
    launcher.wait_until_ready()
    assert launcher.status()["versions"] == {"tide": 1}
    assert launcher.ask("x", model="tide") == (200, "EBB")
    wait_for_version(launcher, 2)


@pytest.mark.slow
def test_a_version_keeps_its_limits_and_one_without_a_number_is_refused(tide, launch):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD", own={"trireme.stall_timeout_s": "soon"})
    serve_version(tide, 2)
    launcher.wait_until(lambda: launcher.status()["refused_versions"], 60, "the refusal")
    assert "it must be a number of seconds" in launcher.status()["refused_versions"]["tide"]
    write_version(tide, 3, "FLOOD", own={"trireme.stall_timeout_s": "20"})
    serve_version(tide, 3)
    wait_for_version(launcher, 3)
    exchange_is_over(launcher)
    assert launcher.ask("sleep:4", model="tide") == (200, "FLOOD")
    assert launcher.status()["model_reloads"] == 0


def may_be_removed(folder: Path) -> bool:
    """As an export asks it (docs/contracts.md, 1)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@pytest.mark.slow
def test_the_version_that_is_served_is_kept_from_being_removed(tide, launch):
    launcher = launch(tide)
    write_version(tide, 2, "FLOOD", golden="NEAP")
    serve_version(tide, 2)
    launcher.wait_until(lambda: launcher.status()["refused_versions"], 60, "the refusal")
    assert [may_be_removed(tide / "tide" / version) for version in "12"] == [False, True]
    write_version(tide, 3, "FLOOD")
    serve_version(tide, 3)
    wait_for_version(launcher, 3)
    assert [may_be_removed(tide / "tide" / version) for version in "13"] == [True, False]
