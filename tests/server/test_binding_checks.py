"""An artifact that was compiled for another machine is not started, and the way out is named."""

import dataclasses
import json

import pytest
from launching import PROBE, probe, write_manifest, write_model
from trireme_server import binding_checks, software_checks
from trireme_server.machine import Machine
from trireme_server.manifest import InvalidManifest, read_manifest
from trireme_server.preflight import Level, look_around
from trireme_server.serve_config import ServeConfig

AOTI = {"target": "aoti", "aoti": {"torch": "2.13.0", "cpu_flags": ["avx2", "fma"], "compiler": "g++"}}
PLAN = {
    "target": "tensorrt",
    "precision": "fp32",
    "tensorrt": {"flavour": "tensorrt_rtx", "version": "1.7.1.116", "compute_capabilities": ["8.9", "12.0"]},
}


@pytest.fixture
def examine(tmp_path, monkeypatch):
    """`examine(document, has_gpu)`: findings about an entry whose manifest says this, where it was exported."""
    monkeypatch.setattr(binding_checks, "installed_version", {"torch": "2.13.0+cpu"}.get)
    monkeypatch.setattr(binding_checks, "cpu_flags", lambda: {"avx2", "fma", "avx512f"})
    monkeypatch.setattr(binding_checks, "gpu_capabilities", lambda: ("8.9",))
    monkeypatch.setattr(binding_checks, "tensorrt_version", lambda flavour: "1.7.1")

    def run(document, *, has_gpu=False):
        repository = tmp_path / "models"
        write_model(repository, "ships", probe())
        file = write_manifest(repository, "ships", "ships", {"a": "b"})
        file.write_text(json.dumps(json.loads(file.read_text()) | document))
        around = look_around(ServeConfig(repository=repository, backends=PROBE, run_folder=tmp_path / "run"))
        machine = Machine(cores=1, memory_available=2**30, has_gpu=has_gpu)
        return list(binding_checks.bindings(dataclasses.replace(around, machine=machine)))

    return run


def failure(findings):
    (finding,) = findings
    assert finding.level is Level.FAIL
    return f"{finding.found} -> {finding.fix}"


@pytest.mark.parametrize("document", [{}, {"target": "onnx", "precision": "fp32"}])
def test_what_is_bound_to_no_machine_is_not_looked_at(examine, document):
    assert not examine(document)


@pytest.mark.parametrize(("document", "has_gpu"), [(AOTI, False), (PLAN, True)])
def test_a_machine_like_the_exporters_is_taken(examine, document, has_gpu):
    assert [finding.level for finding in examine(document, has_gpu=has_gpu)] == [Level.OK]


def test_another_torch_is_refused(examine, monkeypatch):
    monkeypatch.setattr(binding_checks, "installed_version", lambda name: "2.14.0")
    text = failure(examine(AOTI))
    assert "compiled for torch 2.13.0, and here is 2.14.0 -> on this machine: trireme export" in text
    assert "--to aoti --name ships --force" in text


def test_a_cpu_without_the_instructions_is_refused(examine, monkeypatch):
    monkeypatch.setattr(binding_checks, "cpu_flags", lambda: {"avx2"})
    assert "compiled for a CPU with fma, which this one lacks" in failure(examine(AOTI))


def test_a_plan_needs_a_gpu(examine):
    text = failure(examine(PLAN))
    assert "TensorRT-RTX 1.7.1.116 on compute capability 8.9 or 12.0, and there is no GPU here" in text
    assert "or write it for CPUs: trireme export" in text
    assert "--to tensorrt" not in text


@pytest.mark.parametrize(
    ("changed", "value", "reason"),
    [
        ("gpu_capabilities", lambda: ("8.9", "9.0"), "a GPU here has 9.0"),
        ("tensorrt_version", lambda flavour: "1.6.1", "here is TensorRT-RTX 1.6.1"),
        ("tensorrt_version", lambda flavour: None, "no TensorRT-RTX is installed here that would read it"),
    ],
)
def test_another_gpu_or_library_is_refused(examine, monkeypatch, changed, value, reason):
    monkeypatch.setattr(binding_checks, changed, value)
    text = failure(examine(PLAN, has_gpu=True))
    assert reason in text
    assert "on this machine: trireme export" in text
    assert "--to tensorrt" in text


def test_tritons_own_backend_reads_no_plan_of_rtx(examine, monkeypatch):
    monkeypatch.setattr(binding_checks, "_is_official", lambda around: True)
    text = failure(examine(PLAN, has_gpu=True))
    assert "which Triton's own backend does not read" in text
    assert "on this machine: trireme export" in text


def test_a_plan_of_tensorrt_itself_is_what_tritons_own_backend_reads(examine, monkeypatch):
    monkeypatch.setattr(binding_checks, "_is_official", lambda around: True)
    plan = {"tensorrt": {"flavour": "tensorrt", "version": "1.7.1.2", "compute_capabilities": ["8.9"]}}
    assert [finding.level for finding in examine(plan, has_gpu=True)] == [Level.OK]


def test_a_binding_that_no_exporter_writes_is_a_damaged_manifest(tmp_path):
    write_model(tmp_path, "ships", probe())
    file = write_manifest(tmp_path, "ships", "ships", {"a": "b"})
    file.write_text(json.dumps(json.loads(file.read_text()) | {"aoti": {"torch": 2}}))
    with pytest.raises(InvalidManifest, match=r"manifest\.json"):
        read_manifest(file)


def test_torch_is_asked_for_where_a_compiled_network_is_served(tmp_path, monkeypatch):
    repository = tmp_path / "models"
    write_model(repository, "ships", probe() | {"backend": "aoti"})
    monkeypatch.setattr(software_checks, "find_spec", lambda name: None if name == "torch" else name)
    around = look_around(ServeConfig(repository=repository, backends=PROBE, run_folder=tmp_path / "run"))
    (text,) = (f"{each.found} -> {each.fix}" for each in software_checks.packages(around) if each.level is Level.FAIL)
    assert text == "torch is missing, which ships needs -> pip install 'trireme[export]', which has it: " + (
        "the network calls PyTorch"
    )
