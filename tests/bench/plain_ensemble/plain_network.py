"""Rows of token ids become vectors. The plain peer: equal lengths are stacked, others packed, no checks."""

from pathlib import Path

import numpy as np
import openvino as ov
import triton_python_backend_utils as pb_utils

ROW_TOKENS = 128


class TritonPythonModel:
    def initialize(self, args):
        file = Path(args["model_repository"], "model.onnx").resolve()
        properties = {
            "INFERENCE_PRECISION_HINT": "bf16",
            "INFERENCE_NUM_THREADS": 1,
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,
        }
        self._request = ov.Core().compile_model(str(file), "CPU", properties).create_infer_request()
        for length in range(16, 513, 16):
            self._infer([[(0, np.ones(length, np.int64))]])

    def execute(self, requests):
        texts = [pb_utils.get_input_tensor_by_name(request, "input_ids").as_numpy()[0] for request in requests]
        answers = [None] * len(texts)
        for rows in batches(texts):
            vectors = self._infer(rows)
            for row, placed in enumerate(rows):
                for rank, (number, _) in enumerate(placed):
                    answers[number] = vectors[row, rank : rank + 1]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("vector", answer)]) for answer in answers]

    def _infer(self, rows):
        used = max(sum(len(ids) for _, ids in placed) for placed in rows)
        shape = (len(rows), -(-used // 16) * 16)
        input_ids, segments = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, placed in enumerate(rows):
            end = 0
            for rank, (_, ids) in enumerate(placed, start=1):
                begin, end = end, end + len(ids)
                input_ids[row, begin:end] = ids
                segments[row, begin:end] = rank
        results = self._request.infer({"input_ids": input_ids, "attention_mask": segments}, share_inputs=True)
        return results["embedding"].copy()


def batches(texts):
    """Lists of rows of (number, ids): a text a row where all are equally long, else packed, 32 at a time."""
    numbered = list(enumerate(texts))
    if len({len(ids) for ids in texts}) == 1:
        return [[[each] for each in numbered]]
    ordered = sorted(numbered, key=lambda each: -len(each[1]))
    return [rows for begin in range(0, len(ordered), 32) for rows in by_width(packed(ordered[begin : begin + 32]))]


def packed(ordered):
    """Rows of up to ROW_TOKENS tokens, first fit; a longer text has a row of its own."""
    rows, room = [], []
    for number, ids in ordered:
        place = next((row for row, free in enumerate(room) if free >= len(ids)), None)
        if place is None:
            rows.append([(number, ids)])
            room.append(ROW_TOKENS - len(ids))
        else:
            rows[place].append((number, ids))
            room[place] -= len(ids)
    return rows


def by_width(rows):
    """Rows longer than ROW_TOKENS one at a time, the others together."""
    long = [row for row in rows if len(row) == 1 and len(row[0][1]) > ROW_TOKENS]
    short = [row for row in rows if row not in long] if long else rows
    return [[row] for row in long] + ([short] if short else [])
