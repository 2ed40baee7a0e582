"""What happens to a real server when something in it dies, stops or hangs."""

import contextlib
import http.client
import json
import os
import queue
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from launching import fetch, parameters, probe, write_manifest, write_model

pytestmark = pytest.mark.system

TIMEOUT_S = 30.0  # on a busy machine; what is promised is measured, not tested


@pytest.fixture
def launcher(serving):
    """The shared launcher, whole and ready."""
    serving.wait_until_ready()
    return serving


def not_ready(launcher):
    return lambda: launcher.health("/ready")[0] == 503


def answers(launcher, model="echo"):
    return lambda: launcher.is_ready() and launcher.ask("oars", model) == (200, "OARS")


def reloads(launcher):
    return launcher.status()["model_reloads"]


def test_a_killed_stub_is_replaced_and_its_model_answers_again(launcher):
    victim, before = launcher.stub("echo_first"), reloads(launcher)
    os.kill(victim.pid, signal.SIGKILL)
    launcher.wait_until(not_ready(launcher), TIMEOUT_S, "noticed")
    launcher.wait_until(answers(launcher), TIMEOUT_S, "repaired")
    assert launcher.stub("echo_first").pid != victim.pid
    assert reloads(launcher) == before + 1
    _, metrics = fetch(f"http://127.0.0.1:{launcher.ports[3]}/metrics")
    assert b'trireme_model_reloads_total{model="echo_first",reason="gone"}' in metrics


def test_requests_in_flight_and_waiting_when_a_stub_dies_get_an_error(launcher):
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask_or_fail, launcher, "sleep:60" if number == 0 else "sleep:2") for number in range(8)]
        time.sleep(0.7)
        os.kill(launcher.stub("echo_first").pid, signal.SIGKILL)
        outcomes = [one.result() for one in asked]
    assert all(status != 200 and "timed out" not in text for status, text in outcomes), outcomes
    launcher.wait_until(answers(launcher), TIMEOUT_S, "repaired")


def ask_or_fail(launcher, text, timeout_s=20):
    """The answer; status 0 when there is none."""
    try:
        return launcher.ask(text, timeout_s=timeout_s)
    except OSError as error:
        return 0, str(error)


def test_a_stopped_idle_stub_is_replaced(launcher):
    os.kill(launcher.stub("echo_second").pid, signal.SIGSTOP)
    launcher.wait_until(not_ready(launcher), TIMEOUT_S, "noticed")
    launcher.wait_until(answers(launcher), TIMEOUT_S, "repaired")


@pytest.mark.parametrize("text", ["sleep:1000", "loop"])
def test_a_model_that_hangs_in_a_request_is_replaced_and_the_request_gets_an_error(launcher, text):
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(ask_or_fail, launcher, text, 60)
        launcher.wait_until(not_ready(launcher), TIMEOUT_S, "noticed")
        status, reason = asked.result()
    assert status != 200
    assert "timed out" not in reason
    launcher.wait_until(answers(launcher), TIMEOUT_S, "repaired")


def test_a_model_that_works_long_is_left_alone(launcher):
    before = reloads(launcher)
    assert launcher.ask("work:4") == (200, "WORK:4")
    assert reloads(launcher) == before


def test_a_model_may_have_a_stall_timeout_of_its_own(launch, repository):
    write_model(repository, "patient", probe(parameters=parameters(**{"trireme.stall_timeout_s": "20"})))
    launcher = launch(repository)
    assert launcher.ask("sleep:4", "patient") == (200, "SLEEP:4")
    assert launcher.status()["model_reloads"] == 0


def stream_over_http(launcher, text, events):
    """Puts the lines of a generate_stream call into `events`, then the error that ended it, or None."""
    with contextlib.closing(http.client.HTTPConnection(launcher.http, timeout=60)) as connection:
        try:
            connection.request("POST", "/v2/models/flow/generate_stream", json.dumps({"text": text}))
            response = connection.getresponse()
            while block := response.read(1) + response.peek():  # readline would take a cut for the end
                response.read(len(block) - 1)
                events.put(block)
            events.put(None)
        except (OSError, http.client.HTTPException) as error:
            events.put(error)


def stream_over_grpc(launcher, text, events):
    client = triton_grpc.InferenceServerClient(launcher.grpc)
    client.start_stream(lambda result, error: events.put(error or b"answer"))
    given = triton_grpc.InferInput("text", [1], "BYTES")
    given.set_data_from_numpy(np.array([text.encode()], dtype=object))
    client.async_stream_infer("flow", [given])


@pytest.mark.parametrize("kind", ["stream", "block"])
@pytest.mark.parametrize("over", [stream_over_http, stream_over_grpc])
def test_a_stream_of_a_dead_stub_ends_with_an_error(launcher, over, kind):
    events = queue.Queue()
    threading.Thread(target=over, args=(launcher, f"{kind}:600:0.1", events), daemon=True).start()
    assert isinstance(events.get(timeout=10), bytes)
    server = launcher.server_pid()
    os.kill(launcher.stub("flow").pid, signal.SIGKILL)
    while isinstance(last := events.get(timeout=TIMEOUT_S), bytes) and b"error" not in last:
        pass
    assert last is not None
    launcher.wait_until(launcher.is_ready, TIMEOUT_S, "repaired")
    assert launcher.server_pid() == server, "the server had to be restarted"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_is_killed_or_stopped_is_started_again_with_every_model(launcher, number):
    server, before = launcher.server_pid(), launcher.status()["server_restarts"]
    os.kill(server, number)
    launcher.wait_until(not_ready(launcher), TIMEOUT_S, "noticed")
    launcher.wait_until(answers(launcher), TIMEOUT_S, "started again")
    assert launcher.server_pid() != server
    assert launcher.status()["server_restarts"] == before + 1


def test_a_model_that_keeps_dying_ends_the_launcher_with_the_reason(launch, repository, tmp_path):
    mark = tmp_path / "die"
    write_model(repository, "frail", probe(parameters=parameters(die_when=str(mark))))
    write_manifest(repository, "frail", "frail", {"oars": "OARS"})
    launcher = launch(repository, "--max-restarts", "2")
    mark.touch()
    os.kill(launcher.stub("frail").pid, signal.SIGKILL)
    assert launcher.process.wait(90) == 6
    assert "crash loop" in launcher.output.splitlines()[-1]
    assert "frail" in launcher.output.splitlines()[-1]


def test_a_server_that_keeps_dying_ends_the_launcher_with_the_reason(launch, repository):
    launcher = launch(repository, "--max-restarts", "2")
    while launcher.process.poll() is None:
        with contextlib.suppress(OSError, TypeError):  # no launcher, or no server, at this moment
            os.kill(launcher.server_pid(), signal.SIGKILL)
    assert launcher.process.wait() == 6
    assert "crash loop, given up: tritonserver ended: killed by SIGKILL" in launcher.output.splitlines()[-1]


def test_one_entry_goes_on_while_another_is_repaired(launch, repository):
    write_model(repository, "slow_start", probe(parameters=parameters(load_s="6")))
    write_manifest(repository, "slow_start", "slow_start", {"oars": "OARS"})
    launcher = launch(repository)
    os.kill(launcher.stub("slow_start").pid, signal.SIGKILL)
    launcher.wait_until(not_ready(launcher), TIMEOUT_S, "noticed")
    assert launcher.ask("oars") == (200, "OARS")
    os.kill(launcher.stub("echo_first").pid, signal.SIGKILL)
    time.sleep(1)
    launcher.wait_until(lambda: launcher.ask("oars") == (200, "OARS"), TIMEOUT_S, "the other is repaired meanwhile")
    launcher.wait_until(answers(launcher, "slow_start"), TIMEOUT_S, "repaired")


def test_one_instance_dies_and_the_requests_of_the_other_are_answered(launch, repository):
    write_model(repository, "pair", probe(instance_group=[{"count": 2, "kind": "KIND_CPU"}]))
    write_manifest(repository, "pair", "pair", {"oars": "OARS"})
    launcher = launch(repository, "--models", "pair")
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(launcher.ask, "work:5", "pair")
        working, idle = by_work(launcher)
        os.kill(idle.pid, signal.SIGKILL)
        launcher.wait_until(not_ready(launcher), TIMEOUT_S, "noticed")
        launcher.wait_until(answers(launcher, "pair"), TIMEOUT_S, "repaired")
        assert asked.result() == (200, "WORK:5")
    assert not {working.pid, idle.pid} & {stub.pid for stub in new_stubs(launcher)}
    assert len(new_stubs(launcher)) == 2


def by_work(launcher):
    """The stubs of `pair`, the one that uses the CPU first."""
    stubs = launcher.stubs("pair")
    before = {stub.pid: launcher.processes.thread_runtime_ns(stub.pid) for stub in stubs}
    time.sleep(1)
    return sorted(stubs, key=lambda stub: before[stub.pid] - launcher.processes.thread_runtime_ns(stub.pid))


def new_stubs(launcher):
    """The stubs of `pair`, once those of the old generation have gone."""
    launcher.wait_until(lambda: len(launcher.stubs("pair")) == 2, TIMEOUT_S, "the old ones have gone")
    return launcher.stubs("pair")


def wait_for_answers(launcher, outcomes):
    """Waits until the server is ready and twenty more requests have been answered rightly."""
    launcher.wait_until(launcher.is_ready, TIMEOUT_S, "ready")
    right = (200, "OARS")
    before = outcomes.count(right)
    launcher.wait_until(lambda: outcomes.count(right) >= before + 20, TIMEOUT_S, "answers")


def test_no_request_hangs_or_gets_a_wrong_answer_while_stubs_are_replaced_under_load(launcher):
    stop = threading.Event()
    outcomes = []

    def ask_on():
        while not stop.is_set():
            outcomes.append(ask_or_fail(launcher, "oars"))

    threads = [threading.Thread(target=ask_on) for _ in range(8)]
    for thread in threads:
        thread.start()
    for model in ("echo_first", "echo_second"):
        wait_for_answers(launcher, outcomes)
        os.kill(launcher.stub(model).pid, signal.SIGKILL)
        launcher.wait_until(not_ready(launcher), TIMEOUT_S, "noticed")
    wait_for_answers(launcher, outcomes)
    stop.set()
    for thread in threads:
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
    assert all(text == "OARS" for status, text in outcomes if status == 200)
    assert not [text for _, text in outcomes if "timed out" in text]
