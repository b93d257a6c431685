"""The plots of the page: SVG whose colours are the page's CSS variables, and whose text stays text.

matplotlib knows only fixed colours. It draws with the placeholders below, which `_finish` turns into variables, so
that one file is readable in the dark and in the light.
"""

import re
from collections.abc import Callable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from vit_edge.accuracy.extras import report_package
from vit_edge.accuracy.layers import Layer
from vit_edge.accuracy.metrics import Accuracy
from vit_edge.accuracy.paired import Paired

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BASE_COLOUR",
    "LAYERS_SHOWN",
    "MODEL_COLOUR",
    "damage_plot",
    "draw",
    "interval_plot",
    "range_plot",
    "reliability_plot",
]

LAYERS_SHOWN = 16
_INK, _MUTED, _GRID, BASE_COLOUR, MODEL_COLOUR, _MENDED = (
    "#010101",
    "#020202",
    "#030303",
    "#040404",
    "#050505",
    "#060606",
)
_VARIABLES = {
    _INK: "ink",
    _MUTED: "muted",
    _GRID: "grid",
    BASE_COLOUR: "base",
    MODEL_COLOUR: "model",
    _MENDED: "mended",
}
_WIDTH = 4.4  # inches: shown at its size on a desk, and 10 pt stay readable where a phone shrinks it
_NAME_CHARACTERS = 26
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a layer's name is no formula
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


def draw(name: str, height: float, paint: Callable[["Axes"], None]) -> str:
    """One SVG; `name` keeps its ids apart from those of the page's other plots."""
    matplotlib = report_package("matplotlib")
    figure_module = report_package("matplotlib.figure")
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = figure_module.Figure(figsize=(_WIDTH, height), layout="constrained")
        paint(figure.add_subplot())
        text = StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _finish(text.getvalue(), name)


def _finish(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"font: ((?:\w+ )*[\d.]+px) [^;\"]*", r"font: \1 var(--font)", svg)
    for placeholder, variable in _VARIABLES.items():
        svg = svg.replace(placeholder, f"var(--{variable})")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)


def interval_plot(paired: Paired, max_drop: float | None) -> str:
    """The drop with its 95 % interval, zero, and the budget where there is one."""

    def paint(axes: "Axes") -> None:
        low, high = paired.interval
        axes.plot([low, high], [0, 0], color=MODEL_COLOUR, linewidth=3, solid_capstyle="butt")
        axes.plot([paired.drop], [0], "o", color=MODEL_COLOUR, markersize=9)
        axes.axvline(0, color=_MUTED, linewidth=1)
        if max_drop is not None:
            axes.axvline(max_drop, color=_MENDED, linewidth=2, linestyle="--")
            axes.annotate(f"budget {max_drop:g}", (max_drop, 0.75), (4, 0), textcoords="offset points", color=_MENDED)
        axes.set(ylim=(-1, 1), yticks=[], xlabel="points of top-1 lost (95 % interval)")
        axes.spines["left"].set_visible(False)
        axes.margins(x=0.18)

    return draw("interval", 1.3, paint)


def reliability_plot(model: Accuracy, baseline: Accuracy | None) -> str:
    """How often a model is right against how confident it is; on the diagonal it knows what it knows."""

    def paint(axes: "Axes") -> None:
        axes.plot([0, 1], [0, 1], color=_MUTED, linewidth=1, linestyle=":")
        for found, colour, name in ((baseline, BASE_COLOUR, "baseline"), (model, MODEL_COLOUR, "model")):
            if found:
                bins = [(each.confidence, each.accuracy, each.images) for each in found.bins]
                most = max(images for _, _, images in bins)
                x, y = [each[0] for each in bins], [each[1] for each in bins]
                axes.plot(x, y, color=colour, linewidth=1.2, label=f"{name}, ECE {found.ece:.3f}")
                axes.scatter(x, y, s=[12 + 90 * images / most for _, _, images in bins], color=colour, alpha=0.7)
        axes.set(xlim=(-0.03, 1.05), ylim=(-0.03, 1.08), xlabel="confidence", ylabel="share right")
        axes.legend(loc="upper left")

    return draw("reliability", 3.4, paint)


def _names(layers: Sequence[Layer]) -> list[str]:
    """Names that fit beside a bar: of a long one the end, which tells layers apart."""
    names = [layer.name or "?" for layer in layers]
    return [name if len(name) <= _NAME_CHARACTERS else "…" + name[1 - _NAME_CHARACTERS :] for name in names]


def _rows(axes: "Axes", layers: Sequence[Layer]) -> None:
    axes.set_yticks(range(len(layers)), _names(layers))
    axes.set_ylim(len(layers) - 0.4, -0.6)  # the first on top
    axes.grid(visible=False, axis="y")
    for tick, layer in zip(axes.get_yticklabels(), layers, strict=True):
        if layer.mended:
            tick.set_color(_MENDED)


def _height(layers: Sequence[Layer]) -> float:
    return 0.9 + 0.24 * len(layers)


def damage_plot(layers: Sequence[Layer]) -> str:
    """The layers that quantization hurts most, the worst on top; mended ones in their own colour."""
    worst = sorted(layers, key=lambda layer: -layer.damage)[:LAYERS_SHOWN]

    def paint(axes: "Axes") -> None:
        colours = [_MENDED if layer.mended else MODEL_COLOUR for layer in worst]
        axes.barh(range(len(worst)), [layer.damage for layer in worst], color=colours, height=0.7)
        axes.set_xlabel("damage if quantized plainly")
        _rows(axes, worst)

    return draw("damage", _height(worst), paint)


def range_plot(layers: Sequence[Layer]) -> str:
    """From the 99.9th percentile to the maximum of a layer's input, widest ratio on top, logarithmic."""
    tiny = min((layer.p999 for layer in layers if layer.p999 > 0), default=1.0)
    ratios = {id(layer): layer.largest / max(layer.p999, tiny) for layer in layers}
    widest = sorted(layers, key=lambda layer: -ratios[id(layer)])[:LAYERS_SHOWN]

    def paint(axes: "Axes") -> None:
        for row, layer in enumerate(widest):
            low, high = max(layer.p999, tiny), max(layer.largest, tiny)
            colour = _MENDED if layer.mended else MODEL_COLOUR
            axes.plot([low, high], [row, row], color=colour, linewidth=1.5)
            axes.plot([low], [row], "|", color=colour, markersize=9, markeredgewidth=2)
            axes.plot([high], [row], "o", color=colour, markersize=6)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")  # the default writes powers as formulas, which are not parsed here
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel("input (| 99.9 %, ● largest)")
        _rows(axes, widest)

    return draw("ranges", _height(widest), paint)
