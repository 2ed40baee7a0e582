"""The cores a process may use follow from its container, not from the host."""

import os

import pytest
from trireme_network.cores import computes_bf16, usable_cores

AFFINITY = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000", AFFINITY), ("50000 100000", 1), ("100000 100000", 1), ("9900000 100000", AFFINITY)],
)
def test_the_quota_of_cgroup_v2_is_a_bound(tmp_path, text, cores):
    (tmp_path / "cpu.max").write_text(text)
    assert usable_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", AFFINITY), ("40000", 1), ("99000000", AFFINITY)])
def test_the_quota_of_cgroup_v1_is_a_bound(tmp_path, quota, cores):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert usable_cores(tmp_path) == cores


def test_without_a_cgroup_the_affinity_counts(tmp_path):
    assert usable_cores(tmp_path) == AFFINITY


@pytest.mark.parametrize(
    ("flags", "native"),
    [
        ("sse4_2 avx2", False),
        ("avx512f avx512bw avx512_vnni", False),
        ("avx512f avx512_bf16", True),
        ("amx_bf16", True),
    ],
)
def test_bf16_is_native_only_with_instructions_for_it(tmp_path, flags, native):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : fpu {flags}\nbugs :\n")
    assert computes_bf16(tmp_path / "cpuinfo") is native
