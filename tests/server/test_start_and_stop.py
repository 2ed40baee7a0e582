"""Starting and stopping a real server, well and badly."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from launching import ensemble, fetch, parameters, probe, write_manifest, write_model
from trireme_server import die_with_parent

pytestmark = pytest.mark.system

TIMEOUT_S = 60


def ended(launcher, code):
    """The output of a launcher that ends by itself with `code`."""
    assert launcher.process.wait(TIMEOUT_S) == code, launcher.output
    return launcher.output


def leftovers(launcher, pids):
    """Processes and shared memory of a launcher that has ended."""
    alive = [pid for pid in pids if (stat := launcher.processes.stat(pid)) is not None and stat.is_alive]
    return alive + launcher.regions()


def server_and_stubs(launcher):
    return [launcher.server_pid(), *(stub.pid for stub in launcher.stubs())]


def test_ready_means_that_every_entry_has_answered(launch, repository):
    launcher = launch(repository)
    assert launcher.ask("oars") == (200, "OARS")
    status = launcher.status()
    assert status["entries"] == {"echo": True, "flow": True}
    assert status["models"] == dict.fromkeys(("echo_first", "echo_second", "echo", "flow"), "ready")
    assert launcher.health("/health") == (200, {"state": "ready"})
    for port in launcher.ports:
        assert f":{port}" in launcher.output
    assert "/v2/models/echo/infer" in launcher.output
    assert launcher.stop() == 0


def test_the_phases_of_a_start_add_up_to_its_wall_time(launch, repository):
    before = time.monotonic()
    launcher = launch(repository)
    wall = time.monotonic() - before
    phases = launcher.status()["cold_start_seconds"]
    total, other = phases["trireme/total"], phases["trireme/other"]
    assert abs(other) < 0.02 * total + 0.3
    assert total <= wall
    lines = re.findall(r"^ +([\d.]+) s  .*$", launcher.output, re.MULTILINE)
    assert sum(map(float, lines[:-1])) == pytest.approx(float(lines[-1]), abs=0.01 * len(lines))
    _, metrics = fetch(f"http://127.0.0.1:{launcher.ports[3]}/metrics")
    assert b'trireme_cold_start_seconds{model="trireme",phase="total"}' in metrics
    assert b'trireme_cold_start_seconds{model="echo_first",phase="read"}' in metrics


def test_until_it_is_ready_it_says_so_and_which_phase_each_model_is_in(launch, repository):
    write_model(repository, "slow_start", probe(parameters=parameters(load_s="3")))
    launcher = launch(repository, ready=False)
    launcher.wait_until(lambda: launcher.status()["models"]["slow_start"] == "loading", TIMEOUT_S, "loading")
    code, readiness = launcher.health("/ready")
    assert (code, readiness["ready"], readiness["state"]) == (503, False, "starting")
    assert launcher.health("/health")[0] == 200
    launcher.wait_until_ready()
    assert "slow_start: loading" in launcher.output


def test_only_the_named_entries_are_served(launch, repository):
    launcher = launch(repository, "--models", "echo")
    assert launcher.status()["entries"] == {"echo": True}
    assert launcher.ask("oars", "flow")[0] in (400, 404)


def test_a_wrong_answer_to_a_golden_sample_keeps_the_launcher_from_starting(launch, repository):
    write_manifest(repository, "echo", "echo_second", {"oars": "SAILS"})
    output = ended(launch(repository, ready=False), 4)
    found = "wrong answer to a golden sample: echo: output 'answer' is b'OARS' instead of b'SAILS'"
    fix = "trireme export hf://fleet/echo@1 --name echo --force --repository repository"
    assert output.splitlines()[-1].endswith(f"{found} -> {fix}")


def test_an_error_in_place_of_a_golden_answer_names_the_fix_too(launch, repository):
    file = write_manifest(repository, "echo", "echo_second", {"oars": "OARS"})
    file.write_text(file.read_text().replace('"name": "text"', '"name": "words"'))
    last_line = ended(launch(repository, ready=False), 4).splitlines()[-1]
    assert "model 'echo' did not answer its golden sample: " in last_line
    assert last_line.endswith(" -> trireme export hf://fleet/echo@1 --name echo --force --repository repository")


def test_a_model_that_does_not_load_is_told_in_its_own_words(launch, repository):
    write_model(repository, "faulty", probe(parameters=parameters(fail="the oars are broken")))
    output = ended(launch(repository, ready=False), 4)
    last_line = output.splitlines()[-1]
    assert "model 'faulty' did not load" in last_line
    assert last_line.endswith("the oars are broken")
    assert "model.py(" not in output


def test_a_process_that_dies_before_triton_has_heard_of_it_is_noticed(launch, repository):
    write_model(repository, "stillborn", probe())
    stub = repository / "stillborn" / "triton_python_backend_stub"  # Triton prefers a model's own
    stub.write_text("#!/bin/sh\nexit 1\n")
    stub.chmod(0o755)
    last_line = ended(launch(repository, "--max-restarts", "1", ready=False), 6).splitlines()[-1]
    assert "it waits for a process of 'stillborn', which died or was stopped when it was being" in last_line


def test_a_process_that_is_stopped_while_its_model_loads_is_replaced(launch, repository):
    launcher = launch(repository, ready=False)
    launcher.wait_until(launcher.stubs, TIMEOUT_S, "a process was started")
    os.kill(launcher.stubs()[0].pid, signal.SIGSTOP)
    launcher.wait_until_ready()


def test_a_tampered_artifact_keeps_the_server_from_starting(launch, repository):
    (repository / "echo_second" / "1" / "model.bin").write_bytes(b"tampered")
    output = ended(launch(repository, ready=False), 3)
    assert "echo_second/1/model.bin" in output
    assert "trireme export hf://fleet/echo@1 --name echo --force --repository repository" in output


def test_a_taken_port_is_named_with_its_process(launch, repository):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        output = ended(launch(repository, "--grpc-port", str(port), ready=False), 3)
    assert f"port {port} (grpc): taken by" in output
    assert f"process {os.getpid()}" in output


def test_a_stop_leaves_no_process_no_shared_memory_and_no_run_folder(launch, repository):
    launcher = launch(repository)
    pids = server_and_stubs(launcher)
    assert launcher.regions()
    assert launcher.stop() == 0
    assert not leftovers(launcher, pids)
    assert [path.suffix for path in launcher.run_folder.iterdir()] == [".log"]


def test_running_requests_are_answered_before_the_stop(launch, repository):
    launcher = launch(repository, "--stall-timeout", "60")
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(launcher.ask, "work:3")
        time.sleep(0.5)
        launcher.process.send_signal(signal.SIGINT)
        assert asked.result() == (200, "WORK:3")
    assert ended(launcher, 0)


def test_a_request_that_takes_longer_than_the_limit_is_cut_off(launch, repository):
    launcher = launch(repository, "--shutdown-timeout", "1", "--stall-timeout", "60")
    pids = server_and_stubs(launcher)
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(launcher.ask, "work:30")
        time.sleep(0.5)
        launcher.process.send_signal(signal.SIGTERM)
        assert ended(launcher, 0)
        assert isinstance(asked.exception(), OSError) or asked.result()[0] != 200
    assert not leftovers(launcher, pids)


def test_a_second_signal_hurries_the_stop(launch, repository):
    launcher = launch(repository, "--shutdown-timeout", "50", "--stall-timeout", "60")
    pids = server_and_stubs(launcher)
    with ThreadPoolExecutor() as pool:
        pool.submit(launcher.ask, "work:40")
        time.sleep(0.5)
        launcher.process.send_signal(signal.SIGINT)
        time.sleep(1)
        launcher.process.send_signal(signal.SIGINT)
        assert launcher.process.wait(15) == 130
    assert not leftovers(launcher, pids)


def test_a_stop_while_the_models_load_leaves_nothing(launch, repository):
    write_model(repository, "slow_start", probe(parameters=parameters(load_s="30")))
    launcher = launch(repository, "--shutdown-timeout", "3", ready=False)
    launcher.wait_until(lambda: launcher.status()["models"]["slow_start"] == "loading", TIMEOUT_S, "loading")
    pids = server_and_stubs(launcher)
    assert launcher.stop() == 0
    assert not leftovers(launcher, pids)


def test_a_killed_launcher_takes_the_server_down_and_the_next_start_clears_up(launch, repository):
    launcher = launch(repository)
    pids = server_and_stubs(launcher)
    launcher.process.kill()
    launcher.process.wait()
    launcher.wait_until(lambda: not set(leftovers(launcher, pids)) & set(pids), TIMEOUT_S, "nothing runs any more")
    again = launch(repository)
    assert again.ask("oars") == (200, "OARS")


def test_news_come_as_json_lines_for_programs(launch, repository):
    launcher = launch(repository, "--log-format", "json")
    launcher.stop()
    records = [json.loads(line) for line in launcher.output.splitlines()]
    assert {record["event"] for record in records} == {"news", "phase", "started"}
    assert {"model": "echo_first", "phase": "ready"}.items() <= next(
        record for record in records if record.get("phase") == "ready" and record.get("model") == "echo_first"
    ).items()


def test_a_terminal_sees_plain_text_in_the_end(launch, repository, tmp_path):
    """On a terminal a table moves while the models load; what stays is the same as in a file."""
    write_model(repository, "lone", ensemble("echo_first"))
    master, slave = os.openpty()
    launcher = launch(repository, ready=False, output=slave)
    os.close(slave)
    text = b""
    with open(master, "rb", buffering=0) as terminal:
        while b"Ctrl-C stops it." not in text:
            text += terminal.read(4096)
        launcher.process.send_signal(signal.SIGINT)
        try:
            while block := terminal.read(4096):
                text += block
        except OSError:  # the other end was closed
            pass
    assert launcher.process.wait(TIMEOUT_S) == 0
    assert b"/v2/models/lone/infer -d" in text
    assert b"stopped" in text


@pytest.mark.parametrize(("damage", "code"), [(False, 0), (True, 3)])
def test_the_doctor_says_whether_the_server_would_start(doctor, repository, damage, code):
    if damage:
        (repository / "echo_second" / "1" / "model.bin").unlink()
    result = doctor(repository, "--json")
    assert result.returncode == code, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert report["ok"] is not damage
    assert {"check", "level", "found", "fix"} == set(report["findings"][0])
    assert all(each["fix"] for each in report["findings"] if each["level"] != "ok")
    table = doctor(repository)
    assert table.returncode == code
    assert "tritonserver" in table.stdout


def test_one_port_for_two_purposes_is_refused(doctor, repository):
    result = doctor(repository, "--http-port", "9999", "--metrics-port", "9999")
    assert result.returncode == 2
    assert "--http-port 9999" in result.stderr
    assert "--metrics-port 9999" in result.stderr


def test_a_step_is_not_an_entry(doctor, repository):
    result = doctor(repository, "--models", "echo_first")
    assert result.returncode == 3
    assert "'echo_first' is a step of 'echo'; name that one" in result.stdout + result.stderr


def test_the_server_has_a_stack_for_large_bodies():
    program = [sys.executable, die_with_parent.__file__, str(os.getpid()), "/bin/sh", "-c", "ulimit -s"]
    assert int(subprocess.run(program, capture_output=True, text=True, check=True).stdout) == 256 * 1024
