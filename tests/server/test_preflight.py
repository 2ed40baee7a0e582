"""What is found before the start, and the fix that is named."""

import dataclasses
import json
import os
import shutil
import socket
import time
from pathlib import Path

import pytest
from launching import PROBE, decoupled, ensemble, free_ports, pin, probe, write_manifest, write_model
from trireme_server import machine_checks, repository_checks, software_checks
from trireme_server.find_server import ServerNotFound, find_installation
from trireme_server.machine import Machine
from trireme_server.preflight import Level, Surroundings, look_around
from trireme_server.processes import Processes
from trireme_server.repository import RepositoryError, read_repository
from trireme_server.serve_config import ServeConfig
from trireme_server.shared_memory import remove, stale_regions


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def around(repository: Path, **changes) -> Surroundings:
    config = ServeConfig(repository=repository, backends=PROBE, run_folder=repository.parent / "run", **changes)
    return look_around(config)


def found(check, surroundings):
    """(level, text and fix) of every finding."""
    return [(each.level, f"{each.name}: {each.found} -> {each.fix}") for each in check(surroundings)]


def only(level, check, surroundings):
    return [text for each, text in found(check, surroundings) if each is level]


def test_a_taken_port_names_the_process_and_the_option(repository):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        others = dict(zip(("http_port", "metrics_port", "health_port"), free_ports(3), strict=True))
        (text,) = only(Level.FAIL, machine_checks.ports, around(repository, grpc_port=port, **others))
    assert f"port {port} (grpc)" in text
    assert f"process {os.getpid()}" in text
    assert "--grpc-port" in text


def test_an_address_of_another_machine_is_refused(repository):
    texts = only(Level.FAIL, machine_checks.ports, around(repository, host="203.0.113.7"))
    assert len(texts) == 4
    assert all("'203.0.113.7' is no address of this machine -> choose another with --host" in text for text in texts)
    assert len(only(Level.FAIL, machine_checks.ports, around(repository, host="nohost.invalid"))) == 4


@pytest.mark.parametrize(("host", "level"), [("127.0.0.1", Level.OK), ("::1", Level.OK), ("0.0.0.0", Level.WARN)])
def test_listening_for_others_warns_of_known_holes(repository, host, level):
    ((given, text),) = found(machine_checks.host, around(repository, host=host))
    assert given is level
    assert ("CVE-2025-23310" in text) == (level is Level.WARN)


def test_too_little_memory_for_the_artifacts_is_refused(repository):
    small = Machine(cores=1, memory_available=10, has_gpu=False)
    (text,) = only(Level.FAIL, machine_checks.memory, dataclasses.replace(around(repository), machine=small))
    assert "--models" in text


def test_a_region_no_process_has_mapped_is_stale_and_one_that_is_mapped_is_not(tmp_path):
    shm = tmp_path / "shm"
    shm.mkdir()
    stale, live, young = (shm / f"triton_x_backend_shm_region_{name}" for name in ("stale", "live", "young"))
    for region in (stale, live, young):
        region.write_bytes(b"x" * 100)
    for region in (stale, live):
        os.utime(region, (time.time() - 60, time.time() - 60))
    process = tmp_path / "proc" / "7"
    process.mkdir(parents=True)
    (process / "maps").write_text(f"7f0000000000-7f0000001000 rw-s 00000000 00:1a 12 {live}\n")
    regions = stale_regions(Processes(tmp_path / "proc"), shm)
    assert regions == [stale]
    assert remove(regions) == 100
    assert not stale.exists()


def test_a_run_folder_that_cannot_be_written_is_refused(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    (text,) = only(Level.FAIL, machine_checks.disk, around(repository))
    assert "--run-folder" in text


def test_numpy_2_is_refused_where_stubs_would_die_of_it(repository, monkeypatch):
    monkeypatch.setattr(software_checks, "version", lambda _: "2.1.0")
    (text,) = only(Level.FAIL, software_checks.numpy, around(repository))
    assert "pip install 'numpy<2'" in text


def test_packages_that_a_stage_needs_are_named(tmp_path, monkeypatch):
    repository = tmp_path / "repository"
    stage = {"parameters": {"stage": {"string_value": "image"}}}
    write_model(repository, "decode", probe(**stage) | {"backend": "stages"})
    monkeypatch.setattr(software_checks, "find_spec", lambda name: None if name == "PIL" else name)
    (text,) = only(Level.FAIL, software_checks.packages, around(repository))
    assert "PIL" in text
    assert "decode" in text


def test_a_runtime_that_is_not_known_is_left_to_the_model_to_refuse(tmp_path):
    repository = tmp_path / "repository"
    runtime = {"parameters": {"trireme.runtime": {"string_value": "tf"}}}
    write_model(repository, "network", probe(**runtime) | {"backend": "onnxruntime"})
    assert not only(Level.FAIL, software_checks.packages, around(repository))


def test_the_programs_run(repository):
    assert not only(Level.FAIL, software_checks.server_runs, around(repository))


def test_an_interpreter_without_a_stub_is_told_which_versions_have_one(monkeypatch):
    monkeypatch.setattr("sys.version_info", type("V", (), {"major": 3, "minor": 99})())
    with pytest.raises(ServerNotFound, match=r"no stub for Python 3\.99: use one of 3\.10, 3\.11"):
        find_installation()


def test_the_containers_server_and_its_backends_win(tmp_path):
    for name in ("bin/tritonserver", "backends/onnxruntime/libtriton_onnxruntime.so", "backends/python/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    installation = find_installation(tmp_path)
    assert installation.kind == "container"
    assert installation.has_official("onnxruntime")
    assert not installation.has_official("openvino")


def test_artifacts_as_exported_are_fine(repository):
    assert [level for level, _ in found(repository_checks.artifacts, around(repository))] == [Level.OK, Level.OK]


@pytest.mark.parametrize(
    ("content", "what"),
    [(None, "is missing"), (b"short", "has 5 bytes instead of"), (b"WEIGHTS of model.bin", "has another content")],
)
def test_a_missing_or_tampered_artifact_is_named_with_the_way_to_get_it_back(repository, content, what):
    around(repository)
    artifact = repository / "echo_second" / "1" / "model.bin"
    list(repository_checks.artifacts(around(repository)))  # its hash is known by now
    artifact.unlink()
    if content is not None:
        artifact.write_bytes(content)
    (text,) = only(Level.FAIL, repository_checks.artifacts, around(repository))
    assert f"echo_second/1/model.bin {what}" in text
    assert f"trireme export hf://fleet/echo@1 --name echo --force --repository {repository}" in text


def test_tampering_is_seen_even_if_the_time_of_the_file_is_set_back(repository):
    artifact = repository / "echo_second" / "1" / "model.bin"
    list(repository_checks.artifacts(around(repository)))
    before = artifact.stat()
    artifact.write_bytes(artifact.read_bytes().upper())
    os.utime(artifact, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert only(Level.FAIL, repository_checks.artifacts, around(repository))


def test_hashes_are_not_compared_when_that_is_not_wanted(repository):
    (repository / "echo_second" / "1" / "model.bin").unlink()
    assert not found(repository_checks.artifacts, around(repository, verify_artifacts=False))


def test_a_model_that_was_not_exported_is_named_with_the_command(tmp_path):
    repository = tmp_path / "repository"
    write_model(repository, "embed_network", probe(), version=False)
    write_model(repository, "embed", ensemble("embed_network"))
    (text,) = only(Level.FAIL, repository_checks.exported, around(repository))
    assert "embed_network" in text
    assert f"trireme export embed --force --repository {repository}" in text


def test_an_entry_without_a_manifest_is_unproved(tmp_path):
    repository = tmp_path / "repository"
    write_model(repository, "flow", decoupled())
    (text,) = only(Level.WARN, repository_checks.manifests, around(repository))
    assert "no manifest" in text
    assert "export it again from its checkpoint" in text


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"schema": 2}, "has schema 2"),
        ({"golden": [{"inputs": []}]}, "lacks 'outputs'"),
        ({"artifacts": []}, "cannot be read"),
        ({"entry": "rudder"}, "is the manifest of another entry, 'rudder'"),
        ({"version": 2}, "is of version 2, and lies in that of 1"),
        ({"models": ["echo"]}, "is of the models echo; the entry has echo_first, echo_second, echo"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(repository, change, what):
    file = repository / "echo_second" / "1" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    (text,) = only(Level.FAIL, repository_checks.manifests, around(repository))
    assert what in text


def test_a_file_that_the_manifest_does_not_name_is_not_served(repository):
    (repository / "echo_first" / "1" / "labels.json").write_text("[]")
    (text,) = only(Level.FAIL, repository_checks.artifacts, around(repository))
    assert "manifest.json does not name echo_first/1/labels.json -> trireme export hf://fleet/echo@1" in text


def test_an_unknown_check_of_a_golden_sample_is_refused(repository):
    file = write_manifest(repository, "echo", "echo_second", {"oars": "OARS"})
    file.write_text(file.read_text().replace('{"equal": true}', '{"about": 3}'))
    (text,) = only(Level.FAIL, repository_checks.manifests, around(repository))
    assert "min_cosine" in text


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"data": ["x", 1.0]}, "holds 'x' where a number belongs"),
        ({"data": [10**400, 1.0]}, "too large"),
        ({"data": [1.0]}, "has 1 values, which its shape [1, 2] does not"),
        ({"data": [1.0], "shape": []}, "no rows for min_cosine"),
        ({"datatype": "BYTES", "data_base64": ["", ""]}, "is BYTES, which no min_cosine compares"),
        ({"check": {"json_max_abs": 0.1}}, "is FP32, which no json_max_abs compares"),
    ],
)
def test_a_golden_value_that_cannot_be_compared_with_is_refused(repository, change, what):
    file = repository / "echo_second" / "1" / "manifest.json"
    content = json.loads(file.read_text())
    output = {"name": "out", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 0.0], "check": {"min_cosine": 0.9}}
    content["golden"][0]["outputs"] = [output | change]
    file.write_text(json.dumps(content))
    (text,) = only(Level.FAIL, repository_checks.manifests, around(repository))
    assert "cannot be read" in text
    assert what in text


def test_a_manifest_nested_too_deeply_is_refused(repository):
    (repository / "echo_second" / "1" / "manifest.json").write_text("[" * 200_000)
    (text,) = only(Level.FAIL, repository_checks.manifests, around(repository))
    assert "cannot be read" in text


def test_a_backend_that_is_not_there_is_named(repository):
    write_model(repository, "other", probe() | {"backend": "nowhere"})
    (text,) = only(Level.FAIL, repository_checks.backends, around(repository))
    assert "nowhere" in text
    assert "--backends" in text


def test_an_entry_that_is_not_there_is_told_what_is(repository):
    with pytest.raises(RepositoryError, match="has no entry 'ech'; it has echo, flow"):
        read_repository(repository).entries(["ech"])


def test_steps_are_no_entries_of_their_own(repository):
    assert [entry.name for entry in read_repository(repository).entries()] == ["echo", "flow"]


def test_a_config_that_cannot_be_read_is_named_with_the_place(repository):
    (repository / "echo" / "config.pbtxt").write_text("name: 3\nnonsense")
    (text,) = only(Level.FAIL, repository_checks.repository, around(repository))
    assert "echo/config.pbtxt" in text


def add_version(repository: Path, version: int) -> None:
    """A copy of version 1 of `echo`, whose manifest says another task."""
    for model in ("echo", "echo_first", "echo_second"):
        shutil.copytree(repository / model / "1", repository / model / str(version))
    file = repository / "echo_second" / str(version) / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"task": f"of version {version}"}))


def test_the_version_that_the_configs_name_is_looked_at_and_without_one_the_newest(repository):
    add_version(repository, 2)
    assert around(repository).manifests["echo"].task == "of version 2"
    for model in ("echo", "echo_first", "echo_second"):
        pin(repository, model, 1)
    assert around(repository).manifests["echo"].task == "test"
    assert not only(Level.FAIL, repository_checks.exported, around(repository))


def test_a_version_that_a_config_names_and_that_is_not_there_is_named(repository):
    pin(repository, "echo_second", 3)
    (text,) = only(Level.FAIL, repository_checks.exported, around(repository))
    assert "not exported: no version 3 of echo_second" in text


def test_configs_of_different_versions_are_not_served(repository):
    add_version(repository, 2)
    config = (repository / "echo" / "config.pbtxt").read_text()
    (repository / "echo" / "config.pbtxt").write_text(config.replace("model_version: -1", "model_version: 1"))
    pin(repository, "echo_first", 1)
    (text,) = only(Level.FAIL, repository_checks.exported, around(repository))
    assert "echo_second is of version 2, and its ensemble asks for 1" in text
    assert f"`trireme rollback echo --to N --repository {repository}`" in text
