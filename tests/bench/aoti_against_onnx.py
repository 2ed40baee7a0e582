"""What a compiled text network costs beside the same network in ONNX Runtime and OpenVINO, in turns, without a server.

Measured is the processor time of one thread, which other programs on the machine disturb less than the clock.

python tests/bench/aoti_against_onnx.py NETWORK/1/model.pt2 NETWORK/1/model.onnx
"""

import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "backends" / name) for name in ("shared", "onnxruntime")]

import numpy as np  # noqa: E402
from trireme_network.aoti_package import read_package  # noqa: E402
from trireme_network.graph import Stream  # noqa: E402
from trireme_network.parameters import OnnxRuntimeParameters  # noqa: E402
from trireme_network.run_on_aoti import AotInductor  # noqa: E402
from trireme_network.run_on_onnxruntime import OnnxRuntime  # noqa: E402
from trireme_network.run_on_openvino import OpenVino  # noqa: E402

SHAPES = ((1, 16), (32, 16), (8, 128))  # rows, tokens
ROUNDS = 15


def main() -> None:
    """Prints milliseconds, and how many times as long the compiled network takes, with the range of the rounds."""
    package, graph = map(Path, sys.argv[1:3])
    made = {
        "aoti": lambda: AotInductor(read_package(package), runs=1),
        "onnxruntime": lambda: OnnxRuntime(graph, OnnxRuntimeParameters(), threads=1),
        "openvino fp32": lambda: OpenVino(graph),
    }
    streams, loading = {}, {}
    for name, make in made.items():
        begun = time.perf_counter()
        (streams[name],) = make().open_streams(1, 1)
        loading[name] = time.perf_counter() - begun
    print("load, s:", {name: round(seconds, 2) for name, seconds in loading.items()})
    for rows, tokens in SHAPES:
        report(streams, rows, tokens)


def report(streams: dict[str, Stream], rows: int, tokens: int) -> None:
    """One line for a shape."""
    inputs = {
        "input_ids": np.random.default_rng(1).integers(5, 1000, (rows, tokens)),
        "attention_mask": np.ones((rows, tokens), np.int64),
    }
    taken: dict[str, list[float]] = {name: [] for name in streams}
    for _ in range(ROUNDS + 2):
        for name, stream in streams.items():
            begun = time.thread_time()
            stream(inputs)
            taken[name].append(1e3 * (time.thread_time() - begun))
    own = taken["aoti"][2:]
    print(f"{rows} x {tokens}: aoti {statistics.median(own):.2f} ms", end="")
    for name, others in list(taken.items())[1:]:
        ratios = sorted(mine / other for mine, other in zip(own, others[2:], strict=True))
        print(f"; {statistics.median(ratios):.2f} times {name} ({ratios[3]:.2f}-{ratios[-4]:.2f})", end="")
    print()


if __name__ == "__main__":
    main()
