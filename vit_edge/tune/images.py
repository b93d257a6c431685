"""Which images calibrate and which are answered: never the same."""

from dataclasses import dataclass
from pathlib import Path

from vit_edge.accuracy import DataError, Dataset
from vit_edge.runtime.images import find_images
from vit_edge.runtime.onnxfile import file_sha256
from vit_edge.tune.state import digest

__all__ = ["Images", "divide"]

_MOST_CALIBRATION = 200
_SHARE = 4  # without --calib, one image in so many calibrates


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a search.

    Attributes:
        calibration: to quantize with.
        paths: to answer, in an order that depends on their content alone, so that the first are a fair sample.
        labels: one each.
        data_hash: of what is answered, labels included.
        calibration_hash: of what calibrates.
        note: how they were divided, in words.
    """

    calibration: tuple[Path, ...]
    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    data_hash: str
    calibration_hash: str
    note: str


def divide(data: Dataset, calibration: Path | None) -> Images:
    """Choose the images.

    Args:
        data: with labels.
        calibration: a folder of other images. Without one, a quarter of the data, 200 at most, calibrates and is not
            answered; with one, images of the data that are in it too are not answered.

    Raises:
        DataError: there are no labels, or too few images are left.
        InputError: the folder holds no image.
    """
    if data.labels is None:
        raise DataError(f"{data.folder}: has no labels, and accuracy needs them: add labels.csv or a folder per class")
    known = {path: file_sha256(path) for path in data.paths}
    rows = sorted((digest(known[path]), path, label) for path, label in zip(data.paths, data.labels, strict=True))
    if calibration is None:
        count = min(_MOST_CALIBRATION, len(rows) // _SHARE)
        chosen, taken = [path for _, path, _ in rows[:count]], {known[path] for _, path, _ in rows[:count]}
        note = f"no --calib: {count:,} images of {data.folder} calibrate and are not answered"
    else:
        chosen = sorted(find_images(calibration), key=lambda path: (file_sha256(path), path))[:_MOST_CALIBRATION]
        taken = {file_sha256(path) for path in chosen}
        both = sum(known[path] in taken for _, path, _ in rows)
        note = f"{both:,} images are in --calib, too, and are not answered" if both else ""
    left = [(path, label) for _, path, label in rows if known[path] not in taken]
    if len(left) < 2 or not chosen:
        raise DataError(f"{data.folder}: {len(left):,} images are left to answer and {len(chosen):,} to calibrate with")
    return Images(
        calibration=tuple(chosen),
        paths=tuple(path for path, _ in left),
        labels=tuple(label for _, label in left),
        data_hash=digest(*(f"{known[path]} {label}" for path, label in left)),
        calibration_hash=digest(*(file_sha256(path) for path in chosen)),
        note=note,
    )
