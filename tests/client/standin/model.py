"""A backend for tests with the public tensors of `embed`, `guard`, `vision` and of models for other tasks.

What a text says, it does.

`refuse ...`: a bad input. `fail ...`: an error of our own. `sleep S`: takes that long. `busy N`: unavailable the first
N times. `die`: the process ends. Everything else gets an answer made from its bytes.
"""

import hashlib
import json
import os
import re
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.answer = ANSWERS[config["parameters"]["task"]["string_value"]]
        self.trace = config["parameters"]["trace"]["string_value"]
        self.times_busy = {}

    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        start = time.monotonic()
        columns = {tensor.name(): [row.item() for row in tensor.as_numpy()] for tensor in request.inputs()}
        queries = (columns.pop("query"),) if "query" in columns else ()
        (items,) = columns.values()
        error = next(filter(None, map(self.obey, items)), None)
        with open(self.trace, "a") as file:
            file.write(f"{start} {time.monotonic()} {len(items)}\n")
        return (
            pb_utils.InferenceResponse(error=error)
            if error
            else pb_utils.InferenceResponse(self.answer(items, *queries))
        )

    def obey(self, item):
        word, _, rest = item.decode(errors="replace").partition(" ")
        if word == "die":
            os._exit(1)
        if word == "sleep":
            time.sleep(float(rest))
        if word == "fail":
            raise ValueError("failed as asked")
        if word == "refuse":
            return pb_utils.TritonError("text: refused as asked; all else is allowed", pb_utils.TritonError.INVALID_ARG)
        if word == "busy":
            self.times_busy[item] = self.times_busy.get(item, 0) + 1
            if self.times_busy[item] <= int(rest.split()[0]):
                return pb_utils.TritonError("busy as asked", pb_utils.TritonError.UNAVAILABLE)
        return None


def vector(item):
    return np.frombuffer(hashlib.sha256(item).digest()[:8], np.uint8).astype(np.float32)


def windows(items):
    return pb_utils.Tensor("windows", np.array([[1 + len(item) // 100] for item in items], np.int32))


def embed(items):
    return [pb_utils.Tensor("embedding", np.stack([vector(item) for item in items])), windows(items)]


def guard(items):
    scores = np.array([[0.1, 0.9] if b"attack" in item else [0.75, 0.25] for item in items], np.float32)
    labels = np.array([[b"safe", b"unsafe"][row.argmax()] for row in scores], object)[:, np.newaxis]
    return [
        pb_utils.Tensor("label", labels),
        pb_utils.Tensor("score", scores.max(axis=1, keepdims=True)),
        pb_utils.Tensor("scores", scores),
        windows(items),
    ]


def ner(items):
    """Every word with a capital letter is a NAME."""
    found = [
        [
            {"label": "NAME", "score": 0.75, "start": each.start(), "end": each.end(), "text": each.group()}
            for each in re.finditer(r"[A-ZÄÖÜ]\w*", item.decode())
        ]
        for item in items
    ]
    rows = [[json.dumps(entities, ensure_ascii=False).encode()] for entities in found]
    return [pb_utils.Tensor("entities", np.array(rows, object)), windows(items)]


def rank(items, queries):
    """The share of the query's letters that a text has."""
    scores = [len({*query} & {*item}) / max(1, len({*query})) for query, item in zip(queries, items, strict=True)]
    return [pb_utils.Tensor("score", np.array(scores, np.float32)[:, np.newaxis]), windows(items)]


def vision(items):
    labels = np.array([[item[:4], b"second", b"third"] for item in items], object)
    scores = np.tile(np.array([0.5, 0.25, 0.125], np.float32), (len(items), 1))
    return [pb_utils.Tensor("label", labels), pb_utils.Tensor("score", scores)]


def pictures(items):
    return [pb_utils.Tensor("embedding", np.stack([vector(item) for item in items]))]


ANSWERS = {"embed": embed, "guard": guard, "ner": ner, "rank": rank, "vision": vision, "pictures": pictures}
