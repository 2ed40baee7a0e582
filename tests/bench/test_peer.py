"""The peer of `embed`, and the comparison of two servers: what can be checked without serving."""

import sys
from types import SimpleNamespace

import against_peer
import numpy as np
import plain_ensemble
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb


def test_the_ratio_is_taken_within_a_round():
    line = against_peer.ratio({"ours": [100.0, 10.0, 40.0], "peer": [50.0, 10.0, 10.0]})
    assert line == {"ours": 40.0, "peer": 10.0, "ratio": 2.0, "lowest": 1.0, "highest": 4.0}


def test_the_peer_is_three_steps_whose_tensors_fit_each_other(tmp_path):
    for step, file in (("preprocess", "tokenizer.json"), ("network", "model.onnx")):
        version = tmp_path / "ours" / f"embed_{step}" / "1"
        version.mkdir(parents=True)
        (version / file).write_text("{}")
    plain_ensemble.write(tmp_path / "ours", tmp_path / "peer")
    texts = {path.parent.name: path.read_text() for path in (tmp_path / "peer").glob("*/config.pbtxt")}
    configs = {name: text_format.Parse(text, pb.ModelConfig()) for name, text in texts.items()}
    steps = configs["plain"].ensemble_scheduling.step
    assert [step.model_name for step in steps] == ["plain_preprocess", "plain_network", "plain_postprocess"]
    for step in steps:
        config = configs[step.model_name]
        assert list(step.input_map) == [tensor.name for tensor in config.input]
        assert list(step.output_map) == [tensor.name for tensor in config.output]
        assert (tmp_path / "peer" / config.name / "1" / "model.py").exists()


@pytest.fixture
def plain_network(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", SimpleNamespace())
    monkeypatch.syspath_prepend(plain_ensemble.SOURCES)
    import plain_network

    return plain_network


@pytest.mark.parametrize("lengths", [[5], [16] * 9, [100, 30, 20, 300, 128, 1], list(range(1, 80))])
def test_the_peer_computes_every_text_once_in_rows_that_hold_it(plain_network, lengths):
    texts = [np.ones(length, np.int64) for length in lengths]
    batches = list(plain_network.batches(texts))
    placed = [number for rows in batches for row in rows for number, _ in row]
    assert sorted(placed) == list(range(len(lengths)))
    for row in (row for rows in batches for row in rows):
        assert len(row) == 1 or sum(len(ids) for _, ids in row) <= plain_network.ROW_TOKENS
