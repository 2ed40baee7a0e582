"""How a divergence is told: a sentence, a short table, every layer in a file, and a plot where matplotlib is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from trireme_export.divergence import Divergence, LayerDifference
from trireme_export.kinds import Precision

AROUND = 3  # layers shown before and after the one that is named
NAMED = 3
_FLOOR = 1e-9  # a logarithm has no zero
NO_PLOT = "no plot: matplotlib is not installed (pip install 'trireme[bench]')"


def sentence(found: Divergence, precision: Precision) -> str:
    """Which layer it is, and by what rule; or that there is none."""
    allowed = f"{precision} explains {_percent(found.limit)}"
    if (first := found.first) is not None:
        reads = f"what it reads is off by {_percent(first.of_inputs)}" if first.of_inputs else "what it reads agrees"
        return (
            f"the first layer that differs is {first.name}: off by {_percent(first.relative)} of its largest number, "
            f"where {allowed}; {reads}"
        )
    if (passing := found.passing) is not None:
        return (
            f"no layer differs by itself: the difference grows from layer to layer, and passes the "
            f"{_percent(found.limit)} that {precision} explains at {passing.name}"
        )
    return f"no layer differs by more than {precision} explains ({_percent(found.limit)}) while all of them are shown"


def print_layers(found: Divergence, left_out: Sequence[str], console: Console) -> None:
    """The layers around the one that is named, or around the one that is farthest off."""
    if found.layers:
        console.print(_table(found))
    if left_out:
        more = len(left_out) - NAMED
        names = ", ".join(left_out[:NAMED]) + (f" and {more} more" if more > 0 else "")
        text = f"not compared, since no one value of the graph is theirs (merged into their neighbours, say): {names}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def write_report(found: Divergence, title: str, folder: Path, name: str) -> tuple[str, ...]:
    """`NAME-layers.tsv`, and `NAME-layers.png` where it can be drawn; what was written, for the terminal.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / f"{name}-layers.tsv"
    table.write_text("".join(f"{line}\n" for line in _lines(found)), encoding="utf-8")
    if not find_spec("matplotlib"):
        return f"every layer: {table}", NO_PLOT
    plot = table.with_suffix(".png")
    _draw(found, title, plot)
    return f"every layer: {table}", f"plot: {plot}"


def _lines(found: Divergence) -> Iterator[str]:
    yield "layer\tmax_abs\trelative\tcosine\trelative_of_inputs"
    for layer in found.layers:
        numbers = (layer.max_abs, layer.relative, layer.cosine, layer.of_inputs)
        yield "\t".join([layer.name, *(f"{number:.9g}" for number in numbers)])


def _table(found: Divergence) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("layer", overflow="fold")
    for header in ("off by", "share", "cosine"):
        table.add_column(header, justify="right")
    named = _named(found)
    for layer in _around(found.layers, named):
        numbers = (f"{layer.max_abs:.2g}", _percent(layer.relative), f"{layer.cosine:.6f}")
        beyond = layer.relative > found.limit
        style = "bold red" if beyond and layer is named else "red" if beyond else ""
        table.add_row(("> " if layer is named and beyond else "  ") + layer.name, *numbers, style=style)
    return table


def _named(found: Divergence) -> LayerDifference:
    return found.first or found.passing or max(found.layers, key=lambda layer: layer.relative)


def _around(layers: Sequence[LayerDifference], named: LayerDifference) -> Sequence[LayerDifference]:
    place = layers.index(named)
    return layers[max(0, place - AROUND) : place + AROUND + 1]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def _draw(found: Divergence, title: str, file: Path) -> None:
    """A bar for each layer, in the order of the graph from top to bottom, on a scale of powers of ten."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [layer.name for layer in found.layers]
    shares = [min(max(layer.relative, _FLOOR), 1 / _FLOOR) for layer in found.layers]
    colours = ["tab:red" if layer.relative > found.limit else "tab:blue" for layer in found.layers]
    figure = Figure(figsize=(10, 1.5 + 0.16 * len(names)), dpi=120, layout="constrained")
    axes = figure.subplots()
    axes.barh(range(len(names)), shares, left=_FLOOR, color=colours)
    axes.axvline(found.limit, color="black", linestyle="--", linewidth=1, label="what the precision explains")
    axes.set(xscale="log", xlim=(_FLOOR, None), title=title, xlabel="largest difference, of the layer's largest number")
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_ylim(len(names) - 0.5, -0.5)
    if found.first is not None:
        place = names.index(found.first.name)
        axes.get_yticklabels()[place].set(color="tab:red", fontweight="bold")
    axes.grid(True, axis="x", alpha=0.3)
    axes.legend(fontsize=8)
    FigureCanvasAgg(figure)  # no window, whatever the machine's default is
    figure.savefig(file)
