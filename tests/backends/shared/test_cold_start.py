"""The phases of a stub's start are measured."""

import subprocess
import sys
import time

from trireme_triton.cold_start import ColdStart


def test_the_process_phase_is_the_age_of_the_process_at_the_import():
    code = "import time; time.sleep(0.3); from trireme_triton.cold_start import ColdStart; print(ColdStart().seconds)"
    begin = time.monotonic()
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    process_s = eval(done.stdout)["process"]
    assert 0.29 <= process_s <= time.monotonic() - begin + 0.02  # clock ticks of 10 ms


def test_a_phase_entered_twice_adds_up():
    cold_start = ColdStart()
    for _ in range(2):
        with cold_start.phase("read"):
            time.sleep(0.01)
    assert cold_start.seconds["read"] >= 0.02
    assert cold_start.seconds.keys() == {"process", "read"}


def test_a_phase_that_fails_is_counted():
    cold_start = ColdStart()
    try:
        with cold_start.phase("compile"):
            raise KeyError
    except KeyError:
        pass
    assert "compile" in cold_start.seconds
