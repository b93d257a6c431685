"""The page: one HTML file that refers to nothing outside it."""

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

from vit_edge.accuracy.extras import report_package
from vit_edge.accuracy.plots import BASE_COLOUR, MODEL_COLOUR, draw
from vit_edge.tune.front import Point
from vit_edge.tune.halving import Found
from vit_edge.tune.pick import Pick, describe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["render", "require_packages"]


def require_packages() -> None:
    """Find out before the search what would fail after it.

    Raises:
        ConfigError: jinja2 or matplotlib is missing.
    """
    report_package("jinja2")
    report_package("matplotlib")


def render(
    found: Found, front: Sequence[Point], chosen: Pick | None, problem: str, model: str, machine: str
) -> str:  # fmt: skip
    """The page as HTML; names are escaped.

    Args:
        found: of `halve`.
        front: fastest first.
        chosen: None where nothing is within the budget.
        problem: why.
        model: the given file's name.
        machine: the CPU's name.
    """
    jinja2 = report_package("jinja2")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string(_read("vit_edge.tune", "tune.html.j2"))
    trusted = report_package("markupsafe").Markup
    page: str = template.render(
        css=trusted(_read("vit_edge.accuracy", "report.css")),
        plot=trusted(_plot(found.points, front, chosen)),
        model=model,
        machine=machine,
        problem=problem,
        pick=f"{describe(chosen.point)}: {chosen.reason}" if chosen else "",
        images=found.points[0].images,
        rounds=found.points[0].rounds,
        rows=[_row(each, each in front) for each in sorted(found.points, key=lambda point: point.p50)],
        failed=found.failed,
        untried=found.untried,
        dropped=[each.candidate.name for each in found.dropped],
    )
    return page + "\n"


def _read(package: str, name: str) -> str:
    return (resources.files(package) / "templates" / name).read_text(encoding="utf-8")


def _row(point: Point, on_front: bool) -> dict[str, str]:
    low, high = point.paired.interval
    return {
        "name": point.candidate.name,
        "p50": f"{point.p50:.2f} ms",
        "speed": f"{point.speed:.2f}x",
        "accuracy": f"{100 * point.accuracy:.1f} %",
        "drop": f"{point.paired.drop:+.1f} ({low:+.1f} … {high:+.1f})",
        "front": "yes" if on_front else "",
    }


def _plot(points: Sequence[Point], front: Sequence[Point], chosen: Pick | None) -> str:
    def paint(axes: "Axes") -> None:
        for each in points:
            on_front = each in front
            low, high = (100 * limit for limit in each.interval)
            top = 100 * each.accuracy
            axes.errorbar(
                [each.p50], [top], yerr=[[max(0.0, top - low)], [max(0.0, high - top)]], fmt="o", capsize=2,
                color=MODEL_COLOUR if on_front else BASE_COLOUR, alpha=1 if on_front else 0.5,
            )  # fmt: skip
        axes.plot([each.p50 for each in front], [100 * each.accuracy for each in front], color=MODEL_COLOUR)
        if chosen:
            axes.plot(
                [chosen.point.p50], [100 * chosen.point.accuracy], "o", markersize=13, fillstyle="none",
                color=MODEL_COLOUR, label=f"pick: {chosen.point.candidate.variant.name}",
            )  # fmt: skip
            axes.legend(loc="lower right")
        axes.set_xlabel("p50 of one image, ms")
        axes.set_ylabel("top-1, %")

    return draw("tradeoff", 3.2, paint)
