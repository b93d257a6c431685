"""`vit-edge tune`: which precision, resolution and session settings suit a model on this machine."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vit_edge.cli.console import notice, say
from vit_edge.cli.options import checkpoint_options

if TYPE_CHECKING:
    from vit_edge.tune import Tuned

__all__ = ["tune"]

_WIDTH, _INDENT = 80, " " * 13


@click.command("tune", short_help="Search what suits this machine.")
@click.argument("model", metavar="MODEL.onnx")
@click.option("--data", required=True, metavar="DIR", help="images/ with labels.csv, or one folder per class.")
@click.option("--calib", metavar="DIR", help="Other images, without labels; by default a part of --data.")
@click.option("--checkpoint", metavar="CKPT", help="What MODEL was exported from: lower resolutions are tried, too.")
@click.option("--max-drop", type=click.FloatRange(0, 100), metavar="PTS", help="Points of top-1 that may be lost.")
@click.option("--max-latency", type=click.FloatRange(0, min_open=True), metavar="MS", help="Of one image (p50).")
@click.option("--minutes", type=click.FloatRange(0, 1440, min_open=True), default=15.0, show_default=True)
@click.option("-o", "output", required=True, metavar="DIR", help="For pareto.json, index.html and the files.")
@checkpoint_options
def tune(
    model: str, data: str, calib: str | None, checkpoint: str | None, max_drop: float | None,
    max_latency: float | None, minutes: float, output: str, arch: str | None, heads: int | None,
) -> int:  # fmt: skip
    """Search what suits MODEL, an fp32 model file, on this machine: precision, resolution, session settings.

    Many candidates are measured on few images and rounds, the better half of them on more. With --max-drop the pick
    is the fastest whose estimated drop is within it (its interval is shown, and whether it proves that); with
    --max-latency alone the most accurate; else the knee of the front. Exit 1 where nothing is within the budget.

    Ctrl-C loses nothing: the same command goes on where it stopped.
    """
    from vit_edge.tune import Wish
    from vit_edge.tune import tune as run
    from vit_edge.tune.page import require_packages

    if checkpoint is None and (arch or heads):
        raise click.UsageError("--arch and --heads describe a --checkpoint: give it, too")
    require_packages()
    wish = Wish(
        max_drop=max_drop, max_latency=max_latency, minutes=minutes, checkpoint=checkpoint, arch=arch, heads=heads
    )
    calibration = Path(calib) if calib else None
    found = run(Path(model), Path(data), Path(output), wish, calibration, lambda step: say(f"  {step} ...", err=True))
    _show(found, Path(output))
    return 1 if found.pick is None else 0


def _show(found: "Tuned", output: Path) -> None:
    from vit_edge.tune.pick import describe

    for note in found.notes:
        notice(note)
    first = found.front[0]
    say(f"front        of {len(found.found.points)} candidates, {first.images:,} images, {first.rounds} rounds")
    for each in found.front:
        low, high = (100 * limit for limit in each.interval)
        _wrapped("", each.candidate.name)
        say(f"{_INDENT}  {each.p50:.2f} ms, top-1 {100 * each.accuracy:.1f} % ({low:.1f} … {high:.1f})")
    for name, why in found.found.failed.items():
        _wrapped("failed", f"{name}: {why}")
    for text in found.found.untried:
        _wrapped("not tried", text)
    if found.pick:
        _wrapped("pick", describe(found.pick.point))
        _wrapped("why", found.pick.reason)
        _wrapped("file", str(output / found.files[found.pick.point.candidate.name]))
    else:
        click.echo(f"vit-edge: error: {found.problem}", err=True)
    _wrapped("wrote", f"{output / 'pareto.json'} and {output / 'index.html'}")


def _wrapped(head: str, text: str) -> None:
    for line in textwrap.wrap(f"{head:<13}{text}", _WIDTH, subsequent_indent=_INDENT, drop_whitespace=True):
        say(line)
