"""Networks loaded in the manner of the openvino backend, without Triton."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import openvino
import pytest
from trireme_network import load_for_openvino
from trireme_network.model_config import read_model_config
from trireme_network.triton_model import Answering
from trireme_triton.cold_start import ColdStart


@pytest.fixture
def load(tmp_path: Path, ir_files: Callable[[bytes], dict[str, bytes]]) -> Iterator[Callable[..., Answering]]:
    """`load(file, config, kind)`: a ready network from an ONNX file's content, saved as OpenVINO's own format."""
    loaded = []

    def load_network(file: bytes, parsed: Mapping[str, Any], kind: str = "CPU") -> Answering:
        for name, content in ir_files(file).items():
            (tmp_path / name).write_bytes(content)
        loaded.append(load_for_openvino.load(read_model_config(parsed), tmp_path, kind, ColdStart()))
        return loaded[-1]

    yield load_network
    for network in loaded:
        network.close()


@pytest.fixture(scope="session")
def ir_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], dict[str, bytes]]:
    """`ir_files(file)`: the ONNX file's content as the files of a version folder, in both formats."""

    def convert(file: bytes) -> dict[str, bytes]:
        folder = tmp_path_factory.mktemp("ir")
        (folder / "model.onnx").write_bytes(file)
        openvino.save_model(openvino.Core().read_model(file), folder / "model.xml", compress_to_fp16=False)
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    return convert
