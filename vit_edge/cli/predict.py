"""`vit-edge predict`: labels and scores for images, maps as pictures, or features. Needs no torch."""

import math
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vit_edge.cli.console import say
from vit_edge.cli.options import runtime_options
from vit_edge.runtime.text import to_json

if TYPE_CHECKING:
    from vit_edge.runtime import Prediction, Predictor

__all__ = ["predict"]

_MOST_STDIN = 1 << 30  # bytes


@click.command(short_help="Labels and scores for images.")
@click.argument("model")
@click.argument("images", nargs=-1, required=True, metavar="IMAGE|DIR|- ...")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Classes to show an image.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")
@click.option("--map-dir", default=".", metavar="DIR", help="Where a model that gives maps writes IMAGE.map.png.")
@click.option("--no-check", is_flag=True, help="Skip the content hash and the golden check on load.")
@runtime_options
def predict(
    model: str,
    images: tuple[str, ...],
    top: int,
    as_json: bool,
    map_dir: str,
    no_check: bool,
    provider: tuple[str, ...],
    threads: int | None,
) -> int:
    """Predict the classes of images with MODEL; the map of an image is written as a grey PNG.

    Folders are searched for images; "-" reads one image from standard input: vit-edge predict MODEL - < cat.jpg.
    Features and tokens are given whole by --json. An image that cannot be read is reported and the others go on;
    the exit code is then 1.
    """
    from vit_edge.runtime import Predictor

    warnings.filterwarnings("ignore", module="PIL")  # damaged metadata: the pixels are decoded, or it is an error
    predictor = Predictor(model, providers=provider or None, threads=threads, check=not no_check)
    maps = _Maps(Path(map_dir))
    failed = 0
    for name, source in _sources(images):
        result, error = _one(predictor, source)
        failed += error is not None
        record = _record(name, result, error, top, maps)
        if as_json:
            click.echo(to_json(record))
        elif error is None:
            for line in _lines(record):
                say(line)
        else:
            say(f"vit-edge: error: {error}", err=True)
    return 1 if failed else 0


class _Maps:
    """Writes maps into one folder, never two under the same name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken: set[str] = set()

    def write(self, name: str, result: "Prediction") -> Path:
        from vit_edge.runtime.errors import ConfigError
        from vit_edge.runtime.maps import write_map

        stem = "stdin" if name == "-" else Path(name).stem
        names = (f"{stem}.map.png", *(f"{stem}-{i}.map.png" for i in range(2, len(self._taken) + 3)))
        free = next(each for each in names if each not in self._taken)
        self._taken.add(free)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self._folder}: cannot be made: {error.strerror}") from error
        write_map(result.map, self._folder / free)
        return self._folder / free


def _sources(images: tuple[str, ...]) -> Iterator[tuple[str, str | Path | None]]:
    """Names and paths in the order given, None for standard input; a folder's images sorted."""
    from vit_edge.runtime.images import find_images

    for image in images:
        if image == "-":
            yield "-", None
        elif os.path.isdir(image):
            yield from ((str(path), path) for path in find_images(image))
        else:
            yield image, image


def _standard_input() -> bytes:
    from vit_edge.runtime.errors import InputError

    if sys.stdin is None:
        raise InputError("standard input is closed, expected an image")
    try:
        data = sys.stdin.buffer.read(_MOST_STDIN + 1)
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror or error}") from error
    if len(data) > _MOST_STDIN:
        raise InputError(f"standard input has more than {_MOST_STDIN:,} bytes, expected an image")
    return data


def _one(predictor: "Predictor", source: str | Path | None) -> "tuple[Prediction | None, str | None]":
    from vit_edge.runtime import InputError

    try:
        return predictor(_standard_input() if source is None else source), None
    except InputError as error:
        return None, str(error)


def _record(name: str, result: "Prediction | None", error: str | None, top: int, maps: _Maps) -> dict[str, Any]:
    if result is None:
        return {"file": name, "error": error}
    if result.kind == "map":
        path = maps.write(name, result)
        return {"file": name, "map": str(path), "min": float(result.map.min()), "max": float(result.map.max())}
    if result.kind in ("features", "tokens"):
        shape = list(result.shape or result.logits.shape)
        return {"file": name, "kind": result.kind, "shape": shape, "values": result.logits.tolist()}
    best = [{"index": label.index, "name": label.name, "score": label.score} for label in result.best(top)]
    return {"file": name, "top": best}


def _lines(record: dict[str, Any]) -> list[str]:
    if "map" in record:
        return [record["file"], f"  {record['map']}  {record['min']:.4g}..{record['max']:.4g}"]
    if "values" in record:
        norm = math.sqrt(math.fsum(value * value for value in record["values"]))
        size = " x ".join(map(str, record["shape"]))
        told = f"{record['kind']}: {size} numbers, norm {norm:.6g}"
        return [record["file"], f"  {told} (all of them: --json, or Predictor(MODEL)(IMAGE).logits)"]
    return [record["file"], *(f"  {label['score']:6.4f}  {label['name']}" for label in record["top"])]
