"""Reading processes, and telling what a stub does, from made-up /proc trees and from the real one."""

import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trireme_server.processes import Processes
from trireme_server.roster import Roster
from trireme_server.stubs import Stub, StubProbe, find_stubs

STUB = "/run/backends/python/triton_python_backend_stub"
REGION = "trireme_1_shm_region_x"
FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]


def make_process(
    root: Path, pid: int, *, name="stub (x)", state="S", parent=1, cpu=(3, 4), call="running", instance="echo_first_0_0"
):
    folder = root / str(pid)
    task = folder / "task" / str(pid)
    task.mkdir(parents=True)
    fields = [state, str(parent), *["0"] * 9, *map(str, cpu), *["0"] * 6, "5000", *["0"] * 20]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}")
    arguments = [STUB, "/repo/echo_first/1/model.py", REGION, *"9999", "/run/backends/python", instance, "DEFAULT", ""]
    (folder / "cmdline").write_text("\0".join(arguments))
    (folder / "maps").write_text(f"7f00000-7f10000 rw-s 0 00:1a 12 /dev/shm/{REGION}\n8000000-8100000 rw-p 0 00:00 0\n")
    (task / "schedstat").write_text("123456 7 8")
    (task / "status").write_text("Name: x\nvoluntary_ctxt_switches:\t42\nnonvoluntary_ctxt_switches:\t9\n")
    (task / "syscall").write_text(call)
    (task / "children").write_text("")


def sample(root: Path, pid: int = 7):
    return StubProbe(Processes(root), Stub(pid, 5000, "echo_first", REGION)).sample()


def test_a_name_with_spaces_and_parentheses_is_read(tmp_path):
    make_process(tmp_path, 7, name="a) b (c")
    stat = Processes(tmp_path).stat(7)
    assert (stat.name, stat.state, stat.parent, stat.cpu_ticks, stat.start_ticks) == ("a) b (c", "S", 1, 7, 5000)


def test_a_stub_is_known_by_its_command_line(tmp_path):
    make_process(tmp_path, 1)
    make_process(tmp_path, 7, parent=1)
    (tmp_path / "1" / "task" / "1" / "children").write_text("7 ")
    assert find_stubs(Processes(tmp_path), 1) == [Stub(7, 5000, "echo_first", REGION, "echo_first_0_0")]


@pytest.mark.parametrize(("instance", "troubles"), [("echo_first_0_0", []), ("echo_first_0_1", ["gone"])])
def test_a_stub_that_is_gone_is_no_trouble_where_another_runs_its_instance(tmp_path, instance, troubles):
    for pid in (1, 7):
        make_process(tmp_path, pid)
    make_process(tmp_path, 8, instance=instance)
    children = tmp_path / "1" / "task" / "1" / "children"
    children.write_text("7 8 ")
    roster = Roster(Processes(tmp_path), {})
    assert roster.enlist(1, ["echo_first"], 0.0) == []
    shutil.rmtree(tmp_path / "7")
    children.write_text("8 ")
    assert [trouble.verdict.kind for trouble in roster.judge({}, 0.1, 0.1)] == troubles
    assert roster.anyone_left


def test_a_stub_that_is_gone_is_trouble_although_one_of_the_version_before_still_ends(tmp_path):
    for pid in (1, 7):
        make_process(tmp_path, pid)
    children = tmp_path / "1" / "task" / "1" / "children"
    children.write_text("7 ")
    roster = Roster(Processes(tmp_path), {})
    roster.enlist(1, ["echo_first"], 0.0)
    roster.drain(["echo_first"], 0.0, patience_s=30)
    make_process(tmp_path, 8)
    children.write_text("7 8 ")
    assert roster.enlist(1, ["echo_first"], 0.1) == []
    shutil.rmtree(tmp_path / "8")
    children.write_text("7 ")
    assert [trouble.verdict.kind for trouble in roster.judge({}, 0.2, 0.2)] == ["gone"]


def test_a_stub_is_idle_when_it_waits_in_its_own_region(tmp_path):
    make_process(tmp_path, 7, call=f"{FUTEX} 0x7f00010 0x109 0x0 0x0 0x0 0x0 0x7ffc 0x7f5b")
    assert sample(tmp_path).is_idle


def test_a_stub_that_waits_for_a_lock_elsewhere_is_not_idle(tmp_path):
    make_process(tmp_path, 7, call=f"{FUTEX} 0x8000010 0x80 0x0 0x0 0x0 0x0 0x7ffc 0x7f5b")
    assert not sample(tmp_path).is_idle


@pytest.mark.parametrize("call", ["running", "-1 0x7ffc 0x7f5b", "230 0x1 0x1 0x0 0x0 0x0 0x0 0x7ffc 0x7f5b"])
def test_a_stub_that_runs_or_sleeps_is_not_idle(tmp_path, call):
    make_process(tmp_path, 7, call=call)
    assert not sample(tmp_path).is_idle


def test_a_stub_whose_system_call_is_hidden_is_not_blamed(tmp_path):
    make_process(tmp_path, 7)
    (tmp_path / "7" / "task" / "7" / "syscall").unlink()
    assert sample(tmp_path).is_idle


def test_a_dead_stub_that_nobody_has_reaped_is_gone(tmp_path):
    make_process(tmp_path, 7, state="Z")
    assert sample(tmp_path) is None


def test_another_process_with_the_same_number_is_not_the_stub(tmp_path):
    make_process(tmp_path, 7)
    assert StubProbe(Processes(tmp_path), Stub(7, 4999, "echo_first", REGION)).sample() is None


def test_what_the_children_of_a_busy_stub_do_counts(tmp_path):
    make_process(tmp_path, 7)
    make_process(tmp_path, 8, parent=7, cpu=(100, 0))
    (tmp_path / "7" / "task" / "7" / "children").write_text("8")
    assert sample(tmp_path).cpu_ticks == 107


def test_a_real_process_is_seen_to_sleep_stop_and_end():
    processes = Processes()
    with subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"],
                          stdout=subprocess.PIPE) as process:  # fmt: skip
        process.stdout.readline()
        assert process.pid in processes.children(os.getpid())
        assert processes.stat(process.pid).age_s < 60
        assert processes.thread_runtime_ns(process.pid) > 0
        os.kill(process.pid, 19)
        deadline = time.monotonic() + 10
        while processes.stat(process.pid).state != "T" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert processes.stat(process.pid).state == "T"
        process.kill()
        process.wait()
    assert processes.stat(process.pid) is None
