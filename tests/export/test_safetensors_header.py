"""Headers of safetensors files: read like the library reads them, and refused where they are damaged."""

import json
import struct

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize
from safetensors.torch import save
from trireme_export.errors import CheckpointRefused
from trireme_export.safetensors_header import BITS, read_header

TENSORS = {
    "embeddings.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "bias": torch.ones(5, dtype=torch.bfloat16),
    "nothing": torch.zeros(0, 4),
    "position": torch.tensor(7),
}
WHOLE = save(TENSORS, metadata={"format": "pt"})
ONE = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}


@pytest.fixture
def read(tmp_path):
    return lambda content: _read(tmp_path, content)


def _read(folder, content):
    path = folder / "model.safetensors"
    path.write_bytes(content)
    return read_header(path)


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def library_accepts(content):
    try:
        deserialize(content)
    except SafetensorError:
        return False
    return True


def test_a_header_tells_what_the_tensors_are(read):
    header = read(WHOLE)
    assert {each.name: each.shape for each in header.tensors} == {
        name: tuple(tensor.shape) for name, tensor in TENSORS.items()
    }
    assert {each.name: each.dtype for each in header.tensors} == {
        "embeddings.weight": "F32",
        "bias": "BF16",
        "nothing": "F32",
        "position": "I64",
    }
    assert sum(each.num_bytes for each in header.tensors) == 6 * 4 + 5 * 2 + 8
    assert header.metadata == {"format": "pt"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cut short: 0 bytes"),
        (WHOLE[:7], "cut short: 7 bytes"),
        (struct.pack("<Q", 2**60) + b"{}", "is said to have 1152921504606846976 bytes; the file has 10"),
        (WHOLE[:-1], "cut short: its tensors take 42 bytes, and it has 41"),
        (WHOLE + b"x", "its last 1 bytes belong to no tensor"),
        (file_of(b"[]"), "not a JSON object"),
        (file_of(b"{"), "damaged"),
        (file_of(b"\xff{}"), "damaged"),
        (file_of(b"[" * 100_000), "damaged"),
        (file_of(b'{"\\ud800": 1}'), "damaged"),
        (file_of(b'{"a": {}, "a": {}}'), "'a' is given twice"),
        (file_of({"a": ONE | {"dtype": "F31"}}, b"xx"), "is not described by a dtype"),
        (file_of({"a": ONE | {"shape": [-2]}}, b"xx"), "is not described by"),
        (file_of({"a": ONE | {"shape": [True, 2]}}, b"xx"), "is not described by"),
        (file_of({"a": ONE | {"data_offsets": [0, 2, 4]}}, b"xx"), "is not described by"),
        (file_of({"a": ONE | {"data_offsets": [2, 0]}}, b"xx"), "has -2 bytes"),
        (file_of({"a": ONE | {"shape": [3]}}, b"xx"), "has 2 bytes; 3 numbers of U8 take 3"),
        (file_of({"a": ONE | {"dtype": "F4", "shape": [3]}}, b"xx"), "take 1.5"),
        (file_of({"a": ONE | {"shape": [2**40, 2**40, 0]}}, b"xx"), "too large to be true"),
        (file_of({"a": ONE, "b": ONE | {"data_offsets": [1, 3]}}, b"xxx"), "'a' and 'b' share bytes"),
        (
            file_of({"a": ONE, "b": ONE | {"data_offsets": [3, 5]}}, b"xxxxx"),
            "the 1 bytes before 'b' belong to no tensor",
        ),
        (file_of({"a": ONE, "b": {"dtype": "U8", "shape": [0], "data_offsets": [1, 1]}}, b"xx"), "share bytes"),
        (file_of({"__metadata__": {"a": "b"}, "c": float("nan")}), "NaN"),
        (file_of({"__metadata__": {"a": 1}}), "is not an object of texts"),
    ],
)
def test_what_is_damaged_is_refused_and_named(read, content, said):
    with pytest.raises(CheckpointRefused) as refusal:
        read(content)
    assert said in str(refusal.value)
    assert "model.safetensors" in str(refusal.value)


def test_every_dtype_of_the_library_is_known(read):
    for dtype, bits in BITS.items():
        content = file_of({"a": {"dtype": dtype, "shape": [8], "data_offsets": [0, bits]}}, bytes(bits))
        assert library_accepts(content), dtype
        assert read(content).tensors[0].num_bytes == bits
    with pytest.raises(SafetensorError, match="unknown variant") as refusal:
        deserialize(file_of({"a": ONE | {"dtype": "?"}}, b"xx"))
    assert all(f"`{dtype}`" in str(refusal.value) for dtype in BITS)
    assert str(refusal.value).count("`") == 2 * (len(BITS) + 1), "the library knows another one"


def test_a_tensor_is_never_read(tmp_path):
    """A file of a terabyte, all of it a hole."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of({"a": {"dtype": "U8", "shape": [2**40], "data_offsets": [0, 2**40]}}))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 2**40)
    assert read_header(path).tensors[0].num_elements == 2**40


def refused_or_as_the_library(folder, content):
    try:
        header = _read(folder, content)
    except CheckpointRefused:
        return
    assert {each.name for each in header.tensors} == {name for name, _ in deserialize(content)}


several = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
sizes = st.one_of(st.integers(-2, 12), st.integers(), st.sampled_from([2**63, 2**64, 1.0, True, None, "3"]))
tensor = st.fixed_dictionaries(
    {
        "dtype": st.one_of(st.sampled_from(sorted(BITS)), st.text(max_size=3), st.none()),
        "shape": st.one_of(st.lists(sizes, max_size=3), sizes),
        "data_offsets": st.one_of(st.lists(sizes, max_size=3), sizes),
    },
    optional={"extra": st.none()},
)
headers = st.dictionaries(
    st.one_of(st.sampled_from(["a", "b", "__metadata__"]), st.text(max_size=4)), tensor, max_size=3
)


@several
@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=4), st.integers(0, 4))
def test_a_file_with_bytes_put_in_or_taken_out_is_refused_or_read_as_the_library_does(tmp_path, at, put, taken):
    refused_or_as_the_library(tmp_path, WHOLE[:at] + put + WHOLE[at + taken :])


@several
@given(headers, st.binary(max_size=12))
@example({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, b"xx")
def test_any_header_is_refused_or_read_as_the_library_does(tmp_path, header, data):
    refused_or_as_the_library(tmp_path, file_of(header, data))


@several
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 1), st.integers(-1, 1)), max_size=4), st.integers(-1, 1))
def test_tensors_that_nearly_fit_are_refused_or_read_as_the_library_does(tmp_path, tensors, rest):
    header, end = {}, 0
    for number, (size, moved, longer) in enumerate(tensors):
        offsets = [end + moved, end + size + longer]
        header[str(number)] = {"dtype": "U8", "shape": [size], "data_offsets": offsets}
        end += size
    content = file_of(header, bytes(max(0, end + rest)))
    refused_or_as_the_library(tmp_path, content)
    if library_accepts(content):
        _read(tmp_path, content)


@several
@given(st.binary(max_size=64), st.integers(0, 64))
def test_any_bytes_are_refused_or_read_as_the_library_does(tmp_path, text, length):
    refused_or_as_the_library(tmp_path, struct.pack("<Q", length) + text)


@several
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.floats(), st.text()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_any_json_is_refused_or_read_as_the_library_does(tmp_path, content):
    refused_or_as_the_library(tmp_path, file_of(content))
