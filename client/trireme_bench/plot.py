"""A picture of a series of measurements."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from trireme_bench.encode import Summary
from trireme_bench.report import cpu_model
from trireme_bench.wire import Encoding


def write_plot(file: Path, summaries: Sequence[Summary], encoding: Encoding) -> None:
    """Latency against throughput: a line per model and workload, p50 solid and p99 dashed, a point per load."""
    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    axes = figure.subplots()
    for scenario in dict.fromkeys(row.scenario for row in summaries):
        rows = [row for row in summaries if row.scenario == scenario]
        rates = [row.per_second for row in rows]
        label = f"{scenario.target.model}, {scenario.workload}"
        (line,) = axes.plot(rates, [row.p50_s * 1000 for row in rows], "o-", label=f"{label}: p50")
        axes.plot(rates, [row.p99_s * 1000 for row in rows], ".--", color=line.get_color(), label=f"{label}: p99")
        for row in rows:
            point = (row.per_second, row.p50_s * 1000)
            axes.annotate(str(row.load), point, textcoords="offset points", xytext=(4, 6), fontsize=7)
    axes.set(xlabel="requests/s", ylabel="latency, ms", yscale="log", title=f"{cpu_model()}, {encoding}")
    axes.set_xlim(left=0)
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize=8)
    FigureCanvasAgg(figure)  # no window, whatever the machine's default is
    figure.savefig(file)
