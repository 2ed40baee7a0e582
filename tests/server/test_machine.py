"""Cores and memory under cgroup limits, from made-up file systems."""

from pathlib import Path

import pytest
from trireme_server.machine import available_cores, available_memory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "proc/meminfo", "MemTotal: 100 kB\nMemAvailable:       1000000 kB\n")
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def v2(root: Path, path: str = "/") -> Path:
    write(root / "proc/self/cgroup", f"0::{path}\n")
    return root / "sys/fs/cgroup"


def test_without_a_quota_the_affinity_decides(root):
    write(v2(root) / "cpu.max", "max 100000\n")
    assert available_cores(root, 6) == 6


@pytest.mark.parametrize(("quota", "cores"), [("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1)])
def test_a_v2_quota_counts_in_whole_cores(root, quota, cores):
    write(v2(root) / "cpu.max", quota)
    assert available_cores(root, 8) == cores


def test_a_quota_of_an_ancestor_counts(root):
    base = v2(root, "/pod/container")
    write(base / "pod/container/cpu.max", "max 100000")
    write(base / "pod/cpu.max", "300000 100000")
    assert available_cores(root, 8) == 3


def test_a_v1_quota_counts_and_minus_one_is_none(root):
    write(root / "proc/self/cgroup", "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n")
    write(root / "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1")
    write(root / "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000")
    assert available_cores(root, 8) == 8
    write(root / "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "400000")
    assert available_cores(root, 8) == 4


def test_in_a_container_the_limits_lie_at_the_root_of_the_mount(root):
    write(root / "proc/self/cgroup", "4:cpu:/docker/x\n")
    write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000")
    write(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    assert available_cores(root, 8) == 2


def test_affinity_is_never_exceeded(root):
    write(v2(root) / "cpu.max", "800000 100000")
    assert available_cores(root, 2) == 2


def test_memory_is_what_the_limit_leaves_and_caches_can_be_taken(root):
    base = v2(root)
    write(base / "memory.max", "1000000")
    write(base / "memory.current", "600000")
    write(base / "memory.stat", "anon 1\ninactive_file 100000\n")
    assert available_memory(root) == 500_000


def test_without_a_limit_memory_is_what_the_machine_has(root):
    write(v2(root) / "memory.max", "max")
    assert available_memory(root) == 1_000_000 * 1024
