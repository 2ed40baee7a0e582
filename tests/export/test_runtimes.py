"""The runtimes that artifacts are compared in say when they cannot compute."""

import os
import subprocess
import sys

import onnx
from onnx import TensorProto, helper

RUN_ON_ONE_CORE = """
import os, sys
from pathlib import Path
os.sched_setaffinity(0, {int(sys.argv[2])})
import numpy as np
from trireme_export.runtimes import installed_runtimes
for runtime in installed_runtimes(Path(sys.argv[1])):
    for length in (3, 4, 2):
        inputs = {"a": np.ones((1, length if length < 4 else 3), np.float32), "b": np.ones((1, length), np.float32)}
        try:
            print(runtime.run(inputs).tolist())
        except Exception:
            print("failed")
"""


def test_a_failed_run_is_no_earlier_answer_where_there_is_one_core(tmp_path):
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None]) for name in "aby"]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["y"])], "sum", tensors[:2], tensors[2:])
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), file)
    core = str(min(os.sched_getaffinity(0)))
    ran = subprocess.run(
        [sys.executable, "-c", RUN_ON_ONE_CORE, str(file), core],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    assert ran.stdout.splitlines() == ["[[2.0, 2.0, 2.0]]", "failed", "[[2.0, 2.0]]"] * 2
