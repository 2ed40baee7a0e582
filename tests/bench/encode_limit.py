#!/usr/bin/env python3
"""How fast a network can run on this machine when nothing is around it: no server, no tokeniser, no copies.

`encode_against_limit.py` states what comes through a server as a share of this limit. Texts are rows of random token
numbers in the lengths of the benchmark's workload; images random pixels. Every arrangement is
tried, the best is the limit:

- `padded`: the texts of a batch, neighbours in length, one a row, filled up with zeros to the longest of them;
- `packed`: the texts of a batch in as few rows as they fit in, each text a segment of its row (docs/contracts.md 2);
- one stream with all threads, and a stream of one thread for every core.

    python tests/bench/encode_limit.py model_repository/embed_network/1/model.onnx --workload mix --runtime openvino
"""

import argparse
import json
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from trireme_bench.texts import lengths

Feed = dict[str, np.ndarray]
Infer = Callable[[Feed], object]
SEED = 7
TEXTS = 512
ROWS = ("padded", "packed")
FIRST_WORD, LAST_WORD = 1000, 20_000  # token numbers: any of a vocabulary's ordinary words


@dataclass(frozen=True)
class Batch:
    """One call of the network, and how many texts or images it answers."""

    feed: Feed
    items: int


@dataclass(frozen=True)
class Result:
    rows: str
    batch: int
    streams: int
    threads: int  # of each stream
    per_second: float  # texts or images, the median of the repetitions
    lowest: float
    highest: float


def text_batches(workload: str, batch: int, rows: str, row_tokens: int) -> list[Batch]:
    sizes = lengths(workload, TEXTS)
    groups = [sizes[start : start + batch] for start in range(0, TEXTS - batch + 1, batch)]
    if rows == "padded":
        ordered = sorted(sizes)
        groups = [ordered[start : start + batch] for start in range(0, TEXTS - batch + 1, batch)]
        random.Random(SEED).shuffle(groups)  # so that a measurement that ends early has not seen the short ones only
        return [text_batch([[size] for size in group]) for group in groups]
    return [text_batch(pack(group, max(row_tokens, *group))) for group in groups]


def pack(sizes: Iterable[int], row_tokens: int) -> list[list[int]]:
    """First-fit decreasing: at most 11/9 of the fewest rows possible and one (Johnson, 1973)."""
    packed: list[list[int]] = []
    for size in sorted(sizes, reverse=True):
        for row in packed:
            if sum(row) + size <= row_tokens:
                row.append(size)
                break
        else:
            packed.append([size])
    return packed


def text_batch(rows: list[list[int]]) -> Batch:
    """Rows of texts, given by their lengths. The mask numbers the texts of each row from 1."""
    rng = np.random.default_rng(SEED)
    width = max(map(sum, rows))
    mask = np.zeros((len(rows), width), np.int64)
    for number, row in enumerate(rows):
        mask[number, : sum(row)] = np.repeat(np.arange(1, len(row) + 1), row)
    ids = rng.integers(FIRST_WORD, LAST_WORD, mask.shape) * (mask > 0)
    return Batch({"input_ids": ids, "attention_mask": mask}, sum(map(len, rows)))


def image_batches(name: str, shape: list[int], dtype: np.dtype, batch: int) -> list[Batch]:
    pixels = np.random.default_rng(SEED).integers(0, 256, (batch, *shape)).astype(dtype)
    return [Batch({name: pixels}, batch)]


def onnxruntime_streams(model: Path, streams: int, threads: int, precision: str) -> list[Infer]:
    import onnxruntime

    if precision != "f32":
        sys.exit("ONNX Runtime's CPU provider computes in f32 only")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    sessions = [onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"]) for _ in range(streams)]
    return [lambda feed, session=session: session.run(None, feed) for session in sessions]


def openvino_streams(model: Path, streams: int, threads: int, precision: str) -> list[Infer]:
    import openvino

    settings = {
        "NUM_STREAMS": streams,
        "INFERENCE_NUM_THREADS": streams * threads,
        "INFERENCE_PRECISION_HINT": precision,
        "ENABLE_CPU_PINNING": False,
    }
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    requests = [compiled.create_infer_request() for _ in range(streams)]
    return [lambda feed, request=request: request.infer(feed, share_inputs=True) for request in requests]


RUNTIMES = {"onnxruntime": onnxruntime_streams, "openvino": openvino_streams}


def warm_up(streams: list[Infer], batches: list[Batch]) -> None:
    """Every stream prepares itself for every shape once."""
    for batch in {tuple(each.shape for each in batch.feed.values()): batch for batch in batches}.values():
        for infer in streams:
            infer(batch.feed)


def run(streams: list[Infer], batches: list[Batch], seconds: float) -> float:
    """Texts or images per second, all streams together."""
    answered = [0] * len(streams)
    start = time.perf_counter()

    def work(number: int) -> None:
        turn = number  # the streams shall not all have the same batch
        while time.perf_counter() - start < seconds:
            batch = batches[turn % len(batches)]
            streams[number](batch.feed)
            answered[number] += batch.items
            turn += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(streams))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(answered) / (time.perf_counter() - start)


def inputs(model: Path) -> list[Any]:
    import onnxruntime

    return list(onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs())


def arrangements(model: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, int, list[Batch]]]:
    """What one call can hold: its name, the number of texts or images in it, and the calls themselves."""
    found = inputs(model)
    for batch in arguments.batch:
        if len(found) == 1:
            dtype = np.dtype(np.uint8 if "uint8" in found[0].type else np.float32)
            yield "images", batch, image_batches(found[0].name, found[0].shape[1:], dtype, batch)
            continue
        for rows in arguments.rows:
            yield rows, batch, text_batches(arguments.workload, batch, rows, arguments.row_tokens)


def measure(model: Path, arguments: argparse.Namespace) -> Iterator[Result]:
    make = RUNTIMES[arguments.runtime]
    cores = arguments.threads
    for streams, threads in dict.fromkeys([(1, cores), (cores, 1)]):
        lanes = make(model, streams, threads, arguments.precision)
        for rows, batch, batches in arrangements(model, arguments):
            warm_up(lanes, batches)
            rates = [run(lanes, batches, arguments.seconds) for _ in range(arguments.repetitions)]
            yield Result(rows, batch, streams, threads, statistics.median(rates), min(rates), max(rates))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The compute limit of a network on this machine.")
    parser.add_argument("model", type=Path, help="ONNX file")
    parser.add_argument("--workload", default="16", help="tokens of each text, or mix")
    parser.add_argument("--runtime", choices=RUNTIMES, default="openvino")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rows", choices=ROWS, nargs="+", default=ROWS, help="texts sorted by length, or in any order")
    parser.add_argument("--row-tokens", type=int, default=128, help="width of packed rows")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--repetitions", type=int, default=3)
    return parser.parse_args(arguments)


def main(command_line: list[str] | None = None) -> None:
    arguments = parse(command_line)
    best: Result | None = None
    for result in measure(arguments.model, arguments):
        print(json.dumps(asdict(result)), flush=True)
        best = result if best is None or result.per_second > best.per_second else best
    assert best, "there is always an arrangement"
    print(
        json.dumps(
            {"limit": best.per_second, "workload": arguments.workload, **vars(arguments), **asdict(best)}, default=str
        )
    )


if __name__ == "__main__":
    main()
