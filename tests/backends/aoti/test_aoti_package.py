"""What the backend aoti reads of a package, and refuses, before it loads machine code. No torch."""

import json
import zipfile

import pytest
from small_networks import config, tensor
from trireme_network import aoti_package, load_for_aoti
from trireme_network.aoti_package import Table, read_package, refuse_elsewhere
from trireme_network.auto_complete import DEFAULT_MAX_BATCH_SIZE
from trireme_network.graph import GraphTensor
from trireme_network.model_config import ConfigRefused, read_model_config
from trireme_triton.cold_start import ColdStart
from trireme_triton.parameters import InvalidParameter

DESCRIPTION = {
    "inputs": [{"name": "x", "data_type": "TYPE_FP32", "shape": [-1, 2]}],
    "outputs": [{"name": "y", "data_type": "TYPE_FP32", "shape": [-1, 2]}],
    "tables": [{"rows": 9, "input": None}],
    "torch": "2.13.0",
    "cpu_flags": ["avx2", "fma"],
}


@pytest.fixture
def package(tmp_path):
    """`package(key=value, ...)`: the path of a package whose description has these changes; None leaves a key out."""

    def write(**changes):
        description = {key: value for key, value in {**DESCRIPTION, **changes}.items() if value is not None}
        path = tmp_path / "model.pt2"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("m/data/aotinductor/model/c1.wrapper.so", b"no library")
            metadata = json.dumps({"AOTI_DEVICE_KEY": "cpu", "trireme": json.dumps(description)})
            archive.writestr("m/data/aotinductor/model/c1.wrapper_metadata.json", metadata)
            archive.writestr("m/data/aotinductor/model/c2.kernel_metadata.json", metadata)
        return path

    return write


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """`machine(torch, flags)`: the torch that is installed (None: none is), and the cpuinfo file of a CPU."""

    def describe(torch="2.13.0+cpu", flags="fpu avx2 fma avx512f"):
        monkeypatch.setattr(aoti_package, "_installed_torch", lambda: torch and torch.partition("+")[0])
        cpuinfo = tmp_path / "cpuinfo"
        cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: none\n")
        return cpuinfo

    return describe


def load(path, parsed, kind="CPU"):
    return load_for_aoti.load(read_model_config(parsed), path.parent, kind, ColdStart())


def test_a_package_names_its_tensors_and_what_it_is_bound_to(package):
    read = read_package(package())
    assert read.graph.inputs == (GraphTensor("x", "TYPE_FP32", (-1, 2)),)
    assert read.tables == (Table(9, None),)
    assert (read.torch, read.cpu_flags) == ("2.13.0", {"avx2", "fma"})
    assert read.library.endswith("c1.wrapper.so")


def test_another_zip_file_is_no_package(tmp_path):
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/byteorder", "little")
    with pytest.raises(ConfigRefused, match="is no package that `trireme export --to aoti` wrote"):
        read_package(path)
    path.write_bytes(b"no zip file")
    with pytest.raises(ConfigRefused, match="is no package"):
        read_package(path)


def test_a_description_that_lacks_something_is_refused(package):
    with pytest.raises(ConfigRefused, match="cpu_flags"):
        read_package(package(cpu_flags=None))


def test_a_machine_like_the_exporters_is_taken(package, machine):
    refuse_elsewhere(read_package(package()), machine())
    refuse_elsewhere(read_package(package()), machine(torch="2.13.0+cu130"))


@pytest.mark.parametrize(
    ("here", "reason"),
    [
        ({"torch": "2.14.0"}, r"torch 2\.13\.0, and here is 2\.14\.0"),
        ({"torch": None}, r"none is installed here \(pip install torch==2\.13\.0\)"),
        ({"flags": "fpu fma"}, "a CPU with avx2, which this one lacks"),
    ],
)
def test_another_machine_is_refused_with_the_way_out(package, machine, here, reason):
    with pytest.raises(ConfigRefused, match=f"{reason}.*export it again where it is to be served"):
        refuse_elsewhere(read_package(package()), machine(**here))


def test_a_folder_in_the_packages_place_is_refused(tmp_path):
    (tmp_path / "model.pt2").mkdir()
    with pytest.raises(ConfigRefused, match="is no package that `trireme export --to aoti` wrote"):
        read_package(tmp_path / "model.pt2")


@pytest.mark.parametrize("key", ["trireme.runtime", "trireme.precision"])
def test_what_is_compiled_in_cannot_be_asked_for(package, key):
    with pytest.raises(ConfigRefused, match=f"{key} cannot be chosen here"):
        load(package(), config(parameters={key: "fp32"}))


def test_an_unknown_parameter_of_ours_is_refused(package):
    with pytest.raises(InvalidParameter, match=r"unknown parameter 'trireme\.speed'"):
        load(package(), config(parameters={"trireme.speed": "high"}))


def test_it_computes_on_cpus_only(package):
    with pytest.raises(ConfigRefused, match="computes on CPUs only"):
        load(package(), config(), kind="GPU")


@pytest.mark.parametrize(
    ("parsed", "reason"),
    [
        (config(outputs=[tensor("y", "TYPE_FP32", [3])]), "'y' has the shape"),
        (config([tensor("x", "TYPE_INT64", [2])]), "'x' has the type TYPE_INT64"),
        (config([tensor("z", "TYPE_FP32", [2])]), "unexpected input 'z'"),
    ],
)
def test_a_config_must_fit_the_package_as_it_must_fit_a_graph(package, machine, monkeypatch, parsed, reason):
    cpuinfo = machine()
    monkeypatch.setattr(load_for_aoti, "refuse_elsewhere", lambda read: refuse_elsewhere(read, cpuinfo))
    with pytest.raises(ConfigRefused, match=reason):
        load(package(), parsed)


def test_a_bare_config_is_completed_from_the_package(package):
    completion = load_for_aoti.complete(read_model_config({"name": "bare"}), package().parent)
    assert completion.max_batch_size == DEFAULT_MAX_BATCH_SIZE
    assert completion.inputs == [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}]
