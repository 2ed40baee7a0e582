"""Headers of GGUF files: as the gguf package writes them, and refused where they are damaged."""

import contextlib
import struct
import sys

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import quantize
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trireme_export import gguf_header
from trireme_export.errors import CheckpointRefused
from trireme_export.gguf_header import read_gguf_header

several = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
TOKENS = ["a", "b", "c"]


def write_gguf(path, tokens=TOKENS):
    writer = GGUFWriter(path, "llama")
    writer.add_license("mit")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_tensor("token_embd.weight", np.zeros((3, 64), np.float32))
    blocks = quantize(np.ones((4, 64), np.float32), GGMLQuantizationType.Q8_0)
    writer.add_tensor("blk.0.attn_q.weight", blocks, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf").read_bytes()


@pytest.fixture
def read(tmp_path):
    return lambda content: _read(tmp_path, content)


def _read(folder, content):
    path = folder / "tiny.gguf"
    path.write_bytes(content)
    return read_gguf_header(path)


def test_a_header_is_read_as_the_gguf_package_reads_it(tmp_path, whole, read):
    header = read(whole)
    theirs = GGUFReader(tmp_path / "tiny.gguf")
    assert {each.name: (each.dtype, each.shape, each.num_bytes) for each in header.tensors} == {
        each.name: (each.tensor_type.name, tuple(each.shape[::-1].tolist()), each.n_bytes) for each in theirs.tensors
    }
    assert header.metadata["general.architecture"] == "llama"
    assert header.metadata["tokenizer.ggml.tokens"] == TOKENS


def test_without_the_package_it_says_what_to_install(monkeypatch, whole, read):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(CheckpointRefused, match="pip install 'gguf"):
        read(whole)


def test_an_array_longer_than_the_file_is_refused_at_once(read):
    key = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 0, 2**60)
    with pytest.raises(CheckpointRefused, match="past the end"):
        read(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key)


def test_a_header_that_would_fill_the_memory_is_refused(read, whole, monkeypatch):
    monkeypatch.setattr(gguf_header, "_MAX_HEADER_BYTES", 64)
    with pytest.raises(CheckpointRefused, match="more than 64 bytes"):
        read(whole)


def duplicated(file):
    """Both tensors named alike; the shorter name's length is written anew."""
    old = struct.pack("<Q", 19) + b"blk.0.attn_q.weight"
    return file.replace(old, struct.pack("<Q", 17) + b"token_embd.weight")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda file: b"", "cannot be read"),
        (lambda file: b"GGML" + file[4:], "it begins with b'GGML'"),
        (lambda file: file[:4] + struct.pack("<I", 9) + file[8:], "version 9"),
        (lambda file: file[:-64], "cut short"),
        (duplicated, "is given twice"),
    ],
)
def test_what_is_damaged_is_refused_and_named(read, whole, change, said):
    with pytest.raises(CheckpointRefused, match=said):
        read(change(whole))


@several
@given(st.integers(0, 600), st.binary(max_size=9), st.integers(0, 9))
def test_a_file_with_bytes_put_in_or_taken_out_is_read_or_refused(tmp_path, whole, at, put, taken):
    read_or_refuse(tmp_path, whole[:at] + put + whole[at + taken :])


@several
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path, content):
    read_or_refuse(tmp_path, b"GGUF" + struct.pack("<I", 3) + content)


def read_or_refuse(folder, content):
    with contextlib.suppress(CheckpointRefused):
        _read(folder, content)
