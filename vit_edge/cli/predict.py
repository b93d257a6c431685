"""`vit-edge predict`: labels and scores for images. Needs no torch."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vit_edge.cli.options import runtime_options

if TYPE_CHECKING:
    from vit_edge.runtime import Prediction, Predictor

__all__ = ["predict"]


@click.command(short_help="Labels and scores for images.")
@click.argument("model")
@click.argument("images", nargs=-1, required=True, metavar="IMAGE|DIR|- ...")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Classes to show an image.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")
@click.option("--no-check", is_flag=True, help="Skip the content hash and the golden check on load.")
@runtime_options
def predict(
    model: str,
    images: tuple[str, ...],
    top: int,
    as_json: bool,
    no_check: bool,
    provider: tuple[str, ...],
    threads: int | None,
) -> int:
    """Predict the classes of images with MODEL.

    Folders are searched for images; "-" reads one image from standard input. An image that cannot be read is
    reported and the others go on; the exit code is then 1.
    """
    from vit_edge.runtime import Predictor

    predictor = Predictor(model, providers=provider or None, threads=threads, check=not no_check)
    failed = 0
    for name, source in _sources(images):
        result, error = _one(predictor, source)
        failed += error is not None
        if as_json:
            click.echo(json.dumps(_record(name, result, error, top), ensure_ascii=False))
        elif result is not None:
            click.echo(_text(name, result, top))
        else:
            click.echo(f"vit-edge: error: {error}", err=True)
    return 1 if failed else 0


def _sources(images: tuple[str, ...]) -> Iterator[tuple[str, Path | bytes]]:
    """Names and sources in the order given; a folder's images sorted."""
    from vit_edge.runtime.images import find_images

    for image in images:
        if image == "-":
            yield "-", sys.stdin.buffer.read()
        elif Path(image).is_dir():
            yield from ((str(path), path) for path in find_images(Path(image)))
        else:
            yield image, Path(image)


def _one(predictor: "Predictor", source: Path | bytes) -> "tuple[Prediction | None, str | None]":
    from vit_edge.runtime import InputError

    try:
        return predictor(source), None
    except InputError as error:
        return None, str(error)


def _record(name: str, result: "Prediction | None", error: str | None, top: int) -> dict[str, Any]:
    if result is None:
        return {"file": name, "error": error}
    best = [{"index": label.index, "name": label.name, "score": label.score} for label in result.best(top)]
    return {"file": name, "top": best}


def _text(name: str, result: "Prediction", top: int) -> str:
    lines = [f"  {label.score:6.4f}  {label.name}" for label in result.best(top)]
    return "\n".join([name, *lines])
