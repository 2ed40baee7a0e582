"""Which dead or stopped processes are those of a model that is being loaded."""

import os
import signal
import subprocess
import sys
import time

import pytest
from trireme_server.find_server import STUB
from trireme_server.hang_watch import HangWatch
from trireme_server.processes import Processes


class Loads:
    """What Triton is asked to load: model -> since when."""

    def __init__(self, **loads: float) -> None:
        self.loads = loads

    def loads_under_way(self) -> dict[str, float]:
        return dict(self.loads)


@pytest.fixture
def child(tmp_path):
    """`child(model)`: a process of this one that looks like a stub of `model`, and does nothing."""
    started = []

    def start(model="network"):
        file = tmp_path / "models" / model / "1" / "model.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("import time; time.sleep(60)")
        arguments = [f"/run/{STUB}", str(file), "region", *"9999", "/run", f"{model}_0_0", ""]
        process = subprocess.Popen(arguments, executable=sys.executable)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def dead(process):
    """Killed, and not yet buried."""
    os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Processes().stat(process.pid).is_alive and time.monotonic() < deadline:
        time.sleep(0.01)


def judged(watch, *at):
    return [watch.judge(os.getpid(), now, heard_at=now) for now in at]


def test_a_process_that_died_as_its_model_began_to_load_is_told_after_four_seconds(child):
    watch = HangWatch(Processes(), Loads(network=time.monotonic()))
    dead(child())
    assert judged(watch, 0.0, 3.9) == [None, None]
    (said,) = judged(watch, 4.1)
    assert said.startswith("it waits for a process of 'network', which died or was stopped")


def test_a_process_may_have_begun_in_the_same_tick_as_the_load(child):
    process = child()
    age_s = Processes().stat(process.pid).age_s
    watch = HangWatch(Processes(), Loads(network=time.monotonic() - age_s + 0.008))
    dead(process)
    assert judged(watch, 0.0, 4.1)[1] is not None


def test_a_process_from_before_the_load_is_not_its(child):
    dead(child())
    time.sleep(0.05)
    watch = HangWatch(Processes(), Loads(network=time.monotonic()))
    assert judged(watch, 0.0, 60.0) == [None, None]


def test_a_dead_process_is_nobodys_when_nothing_is_being_loaded(child):
    loads = Loads(network=time.monotonic())
    watch = HangWatch(Processes(), loads)
    dead(child())
    judged(watch, 0.0)
    loads.loads.clear()
    assert judged(watch, 60.0) == [None]
    time.sleep(0.05)  # some clock ticks
    loads.loads["network"] = time.monotonic()
    assert judged(watch, 120.0, 180.0) == [None, None]


def test_a_stopped_process_is_ended_after_a_second_and_one_that_goes_on_is_left_alone(child):
    watch = HangWatch(Processes(), Loads(network=time.monotonic()))
    stopped, paused = child(), child()
    for process in (stopped, paused):
        os.kill(process.pid, signal.SIGSTOP)
    wait_for_state("T", stopped, paused)
    judged(watch, 0.0)
    os.kill(paused.pid, signal.SIGCONT)
    wait_for_state("SR", paused)
    assert judged(watch, 1.1) == [None]
    assert stopped.wait(10) == -signal.SIGKILL
    assert paused.poll() is None


def wait_for_state(states, *processes):
    deadline = time.monotonic() + 10
    while any(Processes().stat(each.pid).state not in states for each in processes) and time.monotonic() < deadline:
        time.sleep(0.01)
