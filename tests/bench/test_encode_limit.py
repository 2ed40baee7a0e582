"""The compute limit: how texts are arranged in rows, and that a network runs."""

import json
from pathlib import Path

import encode_limit
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.integers(1, 128), min_size=1, max_size=40))
def test_packing_keeps_every_text_and_fills_no_row_beyond_its_width(sizes: list[int]) -> None:
    rows = encode_limit.pack(sizes, 128)
    assert sorted(size for row in rows for size in row) == sorted(sizes)
    assert max(map(sum, rows)) <= 128
    assert len(rows) <= -(-sum(sizes) // 64)  # two rows never fit in one


def test_a_mask_numbers_the_texts_of_a_row() -> None:
    batch = encode_limit.text_batch([[2, 3], [1]])
    assert batch.feed["attention_mask"].tolist() == [[1, 1, 2, 2, 2], [1, 0, 0, 0, 0]]
    assert ((batch.feed["input_ids"] > 0) == (batch.feed["attention_mask"] > 0)).all()
    assert batch.items == 3


@pytest.mark.parametrize("rows", ["padded", "packed"])
def test_all_texts_of_a_workload_are_in_its_batches(rows: str) -> None:
    batches = encode_limit.text_batches("mix", 32, rows, 128)
    assert sum(batch.items for batch in batches) == encode_limit.TEXTS


def tiny_network(file: Path) -> None:
    """Adds up the token numbers of a row: as much of a text network as the measurement needs."""
    from onnx import TensorProto, helper, save

    ids, mask = (
        helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "l"]) for name in ("input_ids", "attention_mask")
    )
    total = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["b", 1])
    nodes = [
        helper.make_node("Mul", ["input_ids", "attention_mask"], ["product"]),
        helper.make_node("Cast", ["product"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["numbers", "axis"], ["embedding"], keepdims=1),
    ]
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    graph = helper.make_graph(nodes, "tiny", [ids, mask], [total], [axis])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), file)


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_the_limit_is_the_best_of_all_arrangements(
    runtime: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_network(tmp_path / "model.onnx")
    encode_limit.main(
        [str(tmp_path / "model.onnx"), "--runtime", runtime, "--workload", "mix", "--seconds", "0.02", "--threads", "2",
         "--batch", "1", "8", "--repetitions", "1"]
    )  # fmt: skip
    *tried, limit = map(json.loads, capsys.readouterr().out.splitlines())
    arrangements = {(row["rows"], row["batch"], row["streams"], row["threads"]) for row in tried}
    assert len(tried) == len(arrangements) == 8
    assert limit["limit"] == max(row["per_second"] for row in tried) > 0


def test_packed_rows_give_a_network_the_same_tokens_as_padded_rows() -> None:
    packed = encode_limit.text_batches("mix", 32, "packed", 128)
    padded = encode_limit.text_batches("mix", 32, "padded", 128)
    tokens = [sum(int(np.count_nonzero(batch.feed["attention_mask"])) for batch in rows) for rows in (packed, padded)]
    assert tokens[0] == tokens[1]
