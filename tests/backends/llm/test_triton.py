"""The engine behind a real tritonserver, with a tiny random checkpoint."""

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.request
from pathlib import Path
from queue import Queue

import numpy as np
import pytest
from google.protobuf import text_format
from llm_checkpoints import make_checkpoint
from llm_fakes import Recorder, run
from trireme_llm.engine_config import EngineConfig, Precision
from trireme_llm.load import load_engine
from trireme_llm.request import Request, SamplingParams
from trireme_llm.tensors import INPUTS, OUTPUTS, TensorSpec
from tritonclient import grpc
from tritonclient.grpc import model_config_pb2 as pb

pytestmark = pytest.mark.system
HTTP, GRPC, METRICS = 8210, 8211, 8212
BACKEND = Path(__file__).parents[3] / "backends" / "llm"
START_S = 120
ANSWER_S = 60


def model_config() -> str:
    """chat_engine's config.pbtxt, from the table of tensors."""
    config = pb.ModelConfig(name="chat_engine", backend="llm", max_batch_size=0)
    config.model_transaction_policy.decoupled = True
    for specs, place in ((INPUTS, config.input), (OUTPUTS, config.output)):
        for spec in specs:
            place.add(name=spec.name, data_type=data_type(spec), dims=[spec.length])
    for tensor in config.input:
        tensor.optional = True
    for name, value in {"precision": "fp32", "kv_cache_bytes": "4000000", "trireme.threads": "1"}.items():
        config.parameters[name].string_value = value
    config.instance_group.add(count=1, kind=pb.ModelInstanceGroup.KIND_CPU)
    return text_format.MessageToString(config)


def data_type(spec: TensorSpec) -> int:
    return pb.DataType.Value("TYPE_STRING" if spec.datatype == "BYTES" else f"TYPE_{spec.datatype}")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint"), "llama", max_position_embeddings=4096)


@pytest.fixture(scope="module")
def server(tmp_path_factory, checkpoint):
    root = tmp_path_factory.mktemp("server")
    version = root / "models" / "chat_engine" / "1"
    shutil.copytree(checkpoint.folder, version)
    (version.parent / "config.pbtxt").write_text(model_config())
    process = start_server(root)
    try:
        wait_until_ready(process, root)
        yield
    finally:
        process.terminate()
        process.wait(30)
        for region in Path("/dev/shm").glob(f"trireme_llm_test_{os.getpid()}_*"):
            region.unlink()


def start_server(root: Path) -> subprocess.Popen:
    site = Path(sysconfig.get_paths()["purelib"])
    wheel = site / "pytriton" / "tritonserver"
    backends = root / "backends"
    python = backends / "python"
    shutil.copytree(wheel / "backends" / "python", python)
    stub = f"{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copy(wheel / "python_backend_stubs" / stub / "triton_python_backend_stub", python)
    shutil.copytree(BACKEND, backends / "llm")
    (root / "empty").mkdir()
    libraries = f"{site / 'nvidia_pytriton.libs'}:{sysconfig.get_config_var('LIBDIR')}"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [
        str(wheel / "bin" / "tritonserver"),
        f"--model-repository={root / 'models'}",
        f"--backend-directory={backends}",
        "--model-control-mode=explicit",
        "--load-model=chat_engine",
        "--disable-auto-complete-config",
        "--allow-gpu-metrics=false",
        "--http-address=127.0.0.1",
        "--grpc-address=127.0.0.1",
        "--metrics-address=127.0.0.1",
        f"--http-port={HTTP}",
        f"--grpc-port={GRPC}",
        f"--metrics-port={METRICS}",
        "--exit-timeout-secs=5",
        f"--backend-config=python,shm-region-prefix-name=trireme_llm_test_{os.getpid()}_",
    ]
    with (root / "log").open("w") as log:
        environment = {**os.environ, "LD_LIBRARY_PATH": libraries, "PATH": path}
        return subprocess.Popen(command, cwd=root / "empty", env=environment, stdout=log, stderr=log)


def wait_until_ready(process: subprocess.Popen, root: Path) -> None:
    deadline = time.monotonic() + START_S
    with grpc.InferenceServerClient(f"127.0.0.1:{GRPC}") as client:
        while time.monotonic() < deadline:
            assert process.poll() is None, (root / "log").read_text()[-3000:]
            try:
                if client.is_model_ready("chat_engine"):
                    return
            except grpc.InferenceServerException:
                pass
            time.sleep(0.2)
    raise AssertionError((root / "log").read_text()[-3000:])


class Stream:
    """Requests on one gRPC stream and their responses."""

    def __init__(self) -> None:
        self._queue: Queue = Queue()
        self._client = grpc.InferenceServerClient(f"127.0.0.1:{GRPC}")
        self._client.start_stream(callback=lambda result, error: self._queue.put((result, error)))

    def send(self, request_id: str = "0", **tensors) -> None:
        specs = {spec.name: spec for spec in INPUTS}
        inputs = []
        for name, value in tensors.items():
            dtype = {"BYTES": object, "BOOL": bool}.get(specs[name].datatype)
            array = np.atleast_1d(np.array(value, dtype=dtype or specs[name].datatype.lower().replace("fp", "float")))
            inputs.append(grpc.InferInput(name, array.shape, specs[name].datatype))
            inputs[-1].set_data_from_numpy(array)
        self._client.async_stream_infer("chat_engine", inputs, request_id=request_id, enable_empty_final_response=True)

    def next(self):
        return self._queue.get(timeout=ANSWER_S)

    def all(self) -> tuple[list, object]:
        """The responses up to the final one, and the error that ended them, if any."""
        results = []
        while True:
            result, error = self.next()
            if error is not None:
                return results, error
            if len(result.get_response().outputs):
                results.append(result)
            if result.get_response().parameters["triton_final_response"].bool_param:
                return results, None

    def close(self) -> None:
        self._client.stop_stream(cancel_requests=True)
        self._client.close()


@pytest.fixture
def stream(server):
    opened = Stream()
    yield opened
    opened.close()


def ids(results) -> list[int]:
    return [token for result in results for token in result.as_numpy("output_ids").tolist()]


def test_a_generation_streams_the_tokens_the_engine_gives_in_process(stream, checkpoint):
    stream.send(input_ids=[5, 6, 7, 8], max_tokens=20, temperature=0.0, ignore_eos=True)
    results, error = stream.all()
    assert error is None
    config = EngineConfig(checkpoint=checkpoint.folder, precision=Precision.FP32, kv_cache_bytes=1 << 22, threads=1)
    engine = load_engine(config)
    sampling = SamplingParams(max_tokens=20, temperature=0, ignore_eos=True)
    here = Request(prompt=(5, 6, 7, 8), sink=Recorder(), sampling=sampling)
    engine.add(here)
    run(engine)
    assert ids(results) == here.sink.tokens()
    assert len(results) == 20
    assert results[-1].as_numpy("finish_reason").tolist() == [b"length"]
    assert results[-1].as_numpy("num_output_tokens").tolist() == [20]
    assert results[0].as_numpy("num_input_tokens").tolist() == [4]


def test_logprobs_and_several_choices_arrive(stream):
    stream.send(input_ids=[5, 6], max_tokens=3, n=2, seed=1, logprobs=2, ignore_eos=True)
    results, error = stream.all()
    assert error is None
    assert sorted({int(result.as_numpy("choice")[0]) for result in results}) == [0, 1]
    assert all(len(result.as_numpy("top_ids")) == 2 for result in results)
    assert all((result.as_numpy("logprobs") <= 0).all() for result in results)


@pytest.mark.parametrize(
    ("tensors", "named"),
    [
        ({"input_ids": [5], "top_p": 3.0}, "top_p"),
        ({"input_ids": [500]}, "500"),
        ({"input_ids": [5] * 4000, "max_tokens": 500}, "4000"),
        ({"input_ids": [5], "temperature": [1.0, 2.0]}, "temperature"),
        ({"max_tokens": 4}, "input_ids"),
        ({"input_ids": [5], "grammar": b"a", "grammar_kind": b"poem"}, "grammar_kind"),
        ({"input_ids": [5], "cancel": 4}, "cancel"),
    ],
)
def test_a_wrong_request_is_an_error_that_names_the_tensor_and_the_next_one_is_served(stream, tensors, named):
    stream.send(**tensors)
    _, error = stream.all()
    assert named in str(error)
    stream.send(input_ids=[5, 6, 7], max_tokens=2, ignore_eos=True)
    assert len(ids(stream.all()[0])) == 2


def held_blocks() -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{METRICS}/metrics") as response:
        lines = response.read().decode().splitlines()
    (line,) = [each for each in lines if each.startswith("trireme_llm_kv_blocks") and 'state="held"' in each]
    return float(line.rsplit(" ", 1)[1])


def wait_for_no_held_blocks() -> None:
    deadline = time.monotonic() + ANSWER_S
    while held_blocks() > 0:
        assert time.monotonic() < deadline, "blocks are still held"
        time.sleep(0.1)


def test_a_caller_that_leaves_frees_its_blocks(server):
    leaving = Stream()
    leaving.send(input_ids=[5, 6, 7], max_tokens=4000, ignore_eos=True)
    leaving.next()
    leaving.close()
    follow = Stream()
    follow.send(input_ids=[9], max_tokens=1)
    follow.all()
    wait_for_no_held_blocks()
    follow.close()


def test_a_generation_is_cancelled_by_its_id_from_elsewhere(stream):
    stream.send(input_ids=[5, 6, 7], max_tokens=4000, ignore_eos=True)
    first, _ = stream.next()
    other = Stream()
    other.send(cancel=int(first.as_numpy("generation_id")[0]))
    assert other.all() == ([], None)
    other.close()
    results, error = stream.all()
    assert "cancelled" in str(error)
    assert len(results) < 3999


def test_a_deadline_ends_a_generation_with_what_it_has(stream):
    stream.send(input_ids=[5, 6, 7], max_tokens=4000, ignore_eos=True, timeout_ms=300)
    results, error = stream.all()
    assert error is None
    assert results[-1].as_numpy("finish_reason").tolist() == [b"deadline"]


def test_the_metrics_of_the_engine_are_beside_tritons(stream):
    stream.send(input_ids=[5, 6, 7], max_tokens=5, ignore_eos=True)
    stream.all()
    with urllib.request.urlopen(f"http://127.0.0.1:{METRICS}/metrics") as response:
        text = response.read().decode()
    for name in (
        "time_to_first_token_seconds_count",
        "inter_token_seconds_count",
        "e2e_seconds_count",
        "queue_seconds_count",
        "kv_blocks",
        "running",
        "waiting",
        "preemptions_total",
        "prefix_cache_hit_tokens_total",
        "prefix_cache_query_tokens_total",
        "prompt_tokens_total",
        "generated_tokens_total",
        'requests_total{finish_reason="length"',
    ):
        assert f"trireme_llm_{name}" in text, name
