"""`vit-edge eval`: how accurate a model file is, and whether it may replace another one. Needs no torch."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vit_edge.cli.console import say
from vit_edge.cli.options import runtime_options

if TYPE_CHECKING:
    from vit_edge.accuracy import Evaluation

__all__ = ["evaluate"]

EXIT_CODES = {"pass": 0, "fail": 1, "undecided": 3}


@click.command("eval", short_help="Accuracy, and a verdict with statistics.")
@click.argument("model", metavar="MODEL.onnx")
@click.option("--data", required=True, metavar="DIR", help="images/ with labels.csv, or one folder per class.")
@click.option("--baseline", metavar="FP32.onnx", help="The file to compare with, on the same images.")
@click.option("--max-drop", type=float, metavar="PTS", help="The budget: points of top-1 that may be lost.")
@click.option("--json", "json_file", metavar="F", help="Write all numbers as JSON; - is standard output.")
@click.option("--html", "html_file", metavar="F", help="Write a page with plots and flipped images.")
@runtime_options
def evaluate(
    model: str,
    data: str,
    baseline: str | None,
    max_drop: float | None,
    json_file: str | None,
    html_file: str | None,
    provider: tuple[str, ...],
    threads: int | None,
) -> int:
    """Evaluate MODEL on the images in a folder, alone or image by image against a baseline.

    With --max-drop the exit code is the verdict: 0 pass, the 95 % interval of the drop lies within the budget;
    1 fail, it lies above; 3 undecided, there are too few images to tell. Errors exit with 1, too, and say so.
    Images without labels are compared by agreement only.
    """
    from vit_edge.accuracy import ScoreOptions
    from vit_edge.accuracy import evaluate as run

    if max_drop is not None and baseline is None:
        raise click.UsageError("--max-drop needs --baseline: the file to drop from")
    _check_writable(html_file, json_file)
    options = ScoreOptions(providers=provider or None, threads=threads)
    with _images() as progress:
        found = run(model, data, baseline=baseline, max_drop=max_drop, options=options, progress=progress)
    _show(found, json_file, html_file)
    verdict = found.comparison.verdict if found.comparison else None
    return EXIT_CODES[verdict.outcome] if verdict else 0


def _check_writable(html_file: str | None, json_file: str | None) -> None:
    """Find out before the images are run what would fail after it."""
    from vit_edge.accuracy.report import require_packages
    from vit_edge.accuracy.writing import check_target

    if html_file:
        require_packages()
        check_target(Path(html_file))
    if json_file and json_file != "-":
        check_target(Path(json_file))


def _show(found: "Evaluation", json_file: str | None, html_file: str | None) -> None:
    from vit_edge.accuracy.record import to_json
    from vit_edge.accuracy.report import render
    from vit_edge.accuracy.summary import summary
    from vit_edge.accuracy.writing import write_text

    if html_file:
        write_text(Path(html_file), render(found))
    if json_file and json_file != "-":
        write_text(Path(json_file), to_json(found))
    if json_file == "-":
        click.echo(to_json(found), nl=False)
        return
    for line in summary(found):
        say(line)
    for file in (json_file, html_file):
        if file:
            say(f"wrote        {file}")


@contextmanager
def _images() -> Iterator[Callable[[int, int], None]]:
    """Show how many images are done: a bar on a terminal, ten lines elsewhere."""
    if not sys.stderr.isatty():
        yield _every_tenth
        return
    with click.progressbar(length=1, label="images", file=sys.stderr, width=20, show_pos=True) as bar:

        def update(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield update


def _every_tenth(done: int, total: int) -> None:
    if done == total or done * 10 // total > (done - 1) * 10 // total:
        click.echo(f"  {done} of {total} images ...", err=True)
