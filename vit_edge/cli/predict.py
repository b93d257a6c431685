"""`vit-edge predict`: labels and scores for images, or maps as pictures. Needs no torch."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vit_edge.cli.console import printable
from vit_edge.cli.options import runtime_options

if TYPE_CHECKING:
    from vit_edge.runtime import Prediction, Predictor

__all__ = ["predict"]


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

    A model that gives features or tokens has no classes: --json prints its numbers.
    Folders are searched for images; "-" reads one image from standard input. An image that cannot be read is
    reported and the others go on; the exit code is then 1.
    """
    from vit_edge.runtime import Predictor

    predictor = Predictor(model, providers=provider or None, threads=threads, check=not no_check)
    maps = _Maps(Path(map_dir))
    failed = 0
    for name, source in _sources(images):
        result, error = _one(predictor, source)
        failed += error is not None
        record = _record(name, result, error, top, maps)
        if as_json:
            click.echo(_json(record))
        elif error is None:
            click.echo("\n".join(map(printable, _lines(record))))
        else:
            click.echo(f"vit-edge: error: {printable(error)}", err=True)
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


def _record(name: str, result: "Prediction | None", error: str | None, top: int, maps: _Maps) -> dict[str, Any]:
    if result is None:
        return {"file": name, "error": error}
    if result.kind == "map":
        path = maps.write(name, result)
        return {"file": name, "map": str(path), "min": float(result.map.min()), "max": float(result.map.max())}
    if result.kind in ("features", "tokens"):
        return {"file": name, result.kind: result.logits.tolist()}
    best = [{"index": label.index, "name": label.name, "score": label.score} for label in result.best(top)]
    return {"file": name, "top": best}


def _json(record: dict[str, Any]) -> str:
    """One line; bytes of a file name that are not UTF-8 are written as Python's lone surrogates, escaped."""
    text = json.dumps(record, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(record)
    return text


def _lines(record: dict[str, Any]) -> list[str]:
    if "map" in record:
        return [record["file"], f"  {record['map']}  {record['min']:.4g}..{record['max']:.4g}"]
    if "top" in record:
        return [record["file"], *(f"  {label['score']:6.4f}  {label['name']}" for label in record["top"])]
    kind = "features" if "features" in record else "tokens"
    values = record[kind]
    norm = sum(value * value for value in values) ** 0.5
    return [record["file"], f"  {kind}: {len(values):,} numbers, norm {norm:.4g}; --json prints them"]
