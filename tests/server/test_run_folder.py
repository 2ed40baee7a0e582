"""Which backends a server gets."""

import sys
from pathlib import Path

import pytest
from trireme_server.exit_codes import ExitCode, ServeError
from trireme_server.find_server import Installation, find_installation
from trireme_server.run_folder import assemble_backends, make_run_folder


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """`stages`, with a link to a shared package, and a stand-in for `onnxruntime`."""
    folder = tmp_path / "backends"
    for file in ("shared/package/code.py", "stages/model.py", "onnxruntime/model.py"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(f"# {file}")
    (folder / "stages" / "package").symlink_to("../shared/package")
    return folder


def test_links_are_followed_and_folders_without_a_model_stay_out(ours, tmp_path):
    target = tmp_path / "assembled"
    assemble_backends(find_installation(), ours, target)
    assert sorted(path.name for path in target.iterdir()) == ["onnxruntime", "python", "stages"]
    copied = target / "stages" / "package" / "code.py"
    assert not copied.parent.is_symlink()
    assert copied.read_text() == "# shared/package/code.py"


def test_the_wheels_python_backend_gets_the_stub_of_this_interpreter(ours, tmp_path):
    target = tmp_path / "assembled"
    installation = find_installation()
    assemble_backends(installation, ours, target)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert installation.stub.parent.name == version
    assert (target / "python" / "triton_python_backend_stub").read_bytes() == installation.stub.read_bytes()
    assert (target / "python" / "libtriton_python.so").exists()


def test_where_the_official_backend_is_ours_stays_out(ours, tmp_path):
    official = tmp_path / "opt" / "backends"
    for file in ("onnxruntime/libtriton_onnxruntime.so", "python/libtriton_python.so", "python/stub"):
        (official / file).parent.mkdir(parents=True, exist_ok=True)
        (official / file).touch()
    installation = Installation(
        kind="container",
        binary=tmp_path / "tritonserver",
        python_backend=official / "python",
        stub=official / "python" / "stub",
        libraries=(),
        official_backends=official,
    )
    target = tmp_path / "assembled"
    assemble_backends(installation, ours, target)
    assert not (target / "onnxruntime" / "model.py").exists()
    assert (target / "onnxruntime" / "libtriton_onnxruntime.so").exists()
    assert (target / "stages" / "model.py").exists()


def test_what_a_killed_launcher_left_goes_and_the_log_begins_anew(tmp_path):
    first = make_run_folder(tmp_path, 8000)
    (first.path / "old").touch()
    first.log.write_text("old")
    second = make_run_folder(tmp_path, 8000)
    assert not (second.path / "old").exists()
    assert second.log.read_text() == ""
    assert list(second.working_directory.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused_with_the_option(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ServeError, match="--run-folder") as caught:
        make_run_folder(tmp_path / "file", 8000)
    assert caught.value.code is ExitCode.PREFLIGHT_FAILED


def test_thread_pools_of_libraries_get_the_cores_unless_they_are_set(tmp_path):
    environment = find_installation().environment({"MKL_NUM_THREADS": "7", "PATH": "/bin"}, 3)
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["MKL_NUM_THREADS"] == "7"
    assert environment["PATH"] == f"{Path(sys.executable).parent}:/bin"
