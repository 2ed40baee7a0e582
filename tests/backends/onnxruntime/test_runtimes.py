"""Both runtimes compute the same, refuse what they would compute wrongly, and take what the config says."""

import threading
from contextlib import closing

import numpy as np
import pytest
from onnx import TensorProto
from small_networks import TABLE, config, doubling, identity, lookup, tensor
from trireme_network import run_on_openvino
from trireme_network.graph import RunFailed
from trireme_network.model_config import ConfigRefused
from trireme_network.pace import UNMEASURED_S
from trireme_network.parameters import OnnxRuntimeParameters
from trireme_network.pieces import Piece
from trireme_network.run_on_onnxruntime import OnnxRuntime, read_onnx_graph
from trireme_network.run_on_openvino import OpenVino
from trireme_network.stream_pool import StreamPool
from trireme_triton.tensors import InvalidRequest


@pytest.fixture
def write(tmp_path):
    """`write(file)`: the path of an ONNX file with this content."""

    def to_file(content):
        (tmp_path / "model.onnx").write_bytes(content)
        return tmp_path / "model.onnx"

    return to_file


def run(runtime, values, threads=1):
    (stream,) = runtime.open_streams(1, threads)
    return stream({"x": values})["y"]


@pytest.mark.parametrize(
    ("tensor_type", "numpy_type"),
    [
        (TensorProto.BOOL, np.bool_),
        (TensorProto.UINT8, np.uint8),
        (TensorProto.INT8, np.int8),
        (TensorProto.INT16, np.int16),
        (TensorProto.INT32, np.int32),
        (TensorProto.INT64, np.int64),
        (TensorProto.FLOAT16, np.float16),
        (TensorProto.FLOAT, np.float32),
    ],
)
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_every_type_survives(load, runtime, tensor_type, numpy_type):
    name = f"TYPE_{np.dtype(numpy_type).name.upper()}".replace("FLOAT", "FP")
    parsed = config([tensor("x", name, [2])], [tensor("y", name, [2])], parameters={"trireme.runtime": runtime})
    values = np.array([[0, 1], [1, 1]]).astype(numpy_type)
    (answer,) = load(identity(tensor_type), parsed).answer([{"x": values}])
    assert answer["y"].dtype == numpy_type
    np.testing.assert_array_equal(answer["y"], values)


@pytest.mark.parametrize("name", ["DOUBLE", "UINT16", "UINT32", "UINT64"])
def test_openvino_is_refused_for_types_it_computes_in_narrower_ones(load, name):
    triton_name = {"DOUBLE": "TYPE_FP64"}.get(name, f"TYPE_{name}")
    tensors = [tensor("x", triton_name, [2])], [tensor("y", triton_name, [2])]
    file = identity(TensorProto.DataType.Value(name))
    load(file, config(*tensors))
    with pytest.raises(ConfigRefused, match="use onnxruntime"):
        load(file, config(*tensors, parameters={"trireme.runtime": "openvino"}))


@pytest.mark.parametrize("text", ["", "abc", "a\0b", "trailing\0", "😀", "文字", "x" * 100_000])
def test_strings_survive(load, text):
    parsed = config([tensor("x", "TYPE_STRING", [2])], [tensor("y", "TYPE_STRING", [2])])
    values = np.array([[text.encode(), b"z"]], dtype=np.object_)
    (answer,) = load(identity(TensorProto.STRING), parsed).answer([{"x": values}])
    assert answer["y"].tolist() == values.tolist()


def test_a_string_that_is_not_utf_8_fails_its_own_request_only(load):
    parsed = config([tensor("x", "TYPE_STRING", [2])], [tensor("y", "TYPE_STRING", [2])])
    good, bad = (np.array([[text, b"z"]], dtype=np.object_) for text in (b"abc", b"\xff"))
    answers = load(identity(TensorProto.STRING), parsed).answer([{"x": good}, {"x": bad}])
    assert answers[0]["y"].tolist() == good.tolist()
    assert isinstance(answers[1], InvalidRequest)
    assert "not UTF-8" in str(answers[1])


@pytest.mark.parametrize("index", [9, -10, 10, -11, 2**31 - 1, -(2**31), 2**31, 2**32, -(2**40)])
def test_openvino_refuses_the_indices_that_onnx_forbids(write, index):
    values = np.array([[3, index]])
    if -10 <= index < 10:
        np.testing.assert_array_equal(
            run(OpenVino(write(lookup())), values), run(OnnxRuntime(write(lookup()), OnnxRuntimeParameters()), values)
        )
    else:
        for runtime in (OpenVino(write(lookup())), OnnxRuntime(write(lookup()), OnnxRuntimeParameters())):
            with pytest.raises(RunFailed):
                run(runtime, values)


def test_openvino_computes_in_fp32_where_the_cpu_has_no_bf16(write, monkeypatch):
    monkeypatch.setattr(run_on_openvino, "computes_bf16", lambda: False)
    values = np.array([[1 + 2**-20, 3]], np.float32)  # bf16 would round it to 1
    runtime = OpenVino(write(doubling(operator="Mul")), precision="bf16")
    np.testing.assert_array_equal(run(runtime, values), values * values)


def test_threads_and_streams_reach_openvino(write):
    runtime = OpenVino(write(doubling()))
    streams = runtime.open_streams(2, 1)
    compiled = streams[0]._request.get_compiled_model()
    assert len(streams) == 2
    assert compiled.get_property("NUM_STREAMS") == 2
    assert compiled.get_property("INFERENCE_NUM_THREADS") == 2
    assert compiled.get_property("ENABLE_CPU_PINNING") is False
    assert compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name() == "f32"


def test_the_documented_parameters_reach_onnx_runtime(write):
    parameters = OnnxRuntimeParameters(
        inter_op_threads=3, execution_mode=1, memory_arena=False, memory_pattern=False, device_allocator="1"
    )
    session = OnnxRuntime(write(doubling()), parameters, threads=2, graph_level=-1)._session(2)
    options = session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 3)
    assert options.execution_mode.name == "ORT_PARALLEL"
    assert options.graph_optimization_level.name == "ORT_ENABLE_BASIC"
    assert (options.enable_cpu_mem_arena, options.enable_mem_pattern) == (False, False)
    assert options.get_session_config_entry("session.use_device_allocator_for_initializers") == "1"


def test_both_see_the_same_graph(write, text_file):
    for path in (write(lookup()), text_file):
        seen, by_openvino = read_onnx_graph(path), OpenVino(path).graph
        assert seen.inputs == by_openvino.inputs
        assert [item.name for item in seen.outputs] == [item.name for item in by_openvino.outputs]


@pytest.fixture
def pool(write):
    with closing(StreamPool(OnnxRuntime(write(lookup()), OnnxRuntimeParameters()), threads=2, streams=2)) as opened:
        yield opened


@pytest.mark.parametrize("run", ["run_wide", "run_side_by_side"])
def test_a_failed_piece_does_not_stop_the_others(pool, run):
    indices = (0, 99, 1, 2, 98, 3)
    outcomes = getattr(pool, run)([Piece.alone({"x": np.array([[index]])}) for index in indices])
    for index, outcome in zip(indices, outcomes, strict=True):
        if index > 9:
            assert isinstance(outcome, RunFailed)
        else:
            np.testing.assert_array_equal(outcome["y"], TABLE[[[index]]])


@pytest.mark.parametrize("run", ["run_wide", "run_side_by_side"])
def test_no_piece_is_no_outcome(pool, run):
    assert getattr(pool, run)([]) == []


class Heard:
    """What a pool says of its progress, and on which threads."""

    def __init__(self):
        self.threads, self.allowed_s = [], []

    def beat(self):
        self.threads.append(threading.get_ident())

    def allow(self, part_s):
        self.allowed_s.append(part_s)


def test_every_piece_is_reported_and_a_larger_one_is_allowed_more_time(pool):
    heard = Heard()
    pool.report_to(heard)
    pool.run_wide([Piece.alone({"x": np.zeros((1, 1), np.int64)})] * 3)
    pool.run_wide([Piece.alone({"x": np.zeros((1, 20), np.int64)})])
    pool.run_wide([Piece.alone({"x": np.zeros((1, 1), np.int64)})])
    assert len(heard.threads) == 5
    assert heard.allowed_s[0] == UNMEASURED_S > heard.allowed_s[1] > 0
    assert heard.allowed_s[2] > 0


def test_no_other_thread_reports(pool):
    heard = Heard()
    pool.report_to(heard)
    outcomes = pool.run_side_by_side([Piece.alone({"x": np.array([[number % 10]])}) for number in range(200)])
    assert [outcome["y"].ravel().tolist() for outcome in outcomes] == [
        TABLE[number % 10].tolist() for number in range(200)
    ]
    assert set(heard.threads) <= {threading.get_ident()}  # none at all where the others were quicker
