"""Data sets on disk: images, and a label for each of them or for none.

========================================  ================================================================
layout                                    label
========================================  ================================================================
`labels.csv`, images beside it or in      columns `file` and `label`, an index or the name of a class
`images/` (also `images/labels.csv`)
one folder per class, in the folder or    the folder's name, an index or the name of a class; only if no
in its only subfolder `images/`           name is either, and there are as many as classes: sorted order
images only                               none
========================================  ================================================================

Everything that is wrong is collected and raised as one `DataError`.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePosixPath

from vit_edge.accuracy.class_names import ClassNames
from vit_edge.accuracy.errors import DataError
from vit_edge.runtime.errors import InputError
from vit_edge.runtime.images import find_images

__all__ = ["Dataset", "read_dataset"]

_MAX_CSV_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Images with their labels.

    Attributes:
        folder: Where they are.
        paths: The image files, in the order of `labels.csv` or sorted.
        labels: The class of every image, or None where the data set has no labels.
        origin: Where the labels come from, in words.
    """

    folder: Path
    paths: tuple[Path, ...]
    labels: tuple[int, ...] | None
    origin: str

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, index: int) -> str:
        """The file's name relative to the folder, with forward slashes."""
        return self.paths[index].relative_to(self.folder).as_posix()


def read_dataset(folder: str | PathLike[str], classes: int, names: Sequence[str] = ()) -> Dataset:
    """Find the images of a data set and their labels; no image is opened.

    Args:
        folder: In one of the layouts above.
        classes: How many the model has.
        names: Their names, or nothing.

    Raises:
        DataError: Something is missing, twice, unknown or outside the folder; all such defects are listed.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root}: no such folder, expected one with images")
    known = ClassNames(classes, names)
    tables = [path for path in (root / "labels.csv", root / "images" / "labels.csv") if path.is_file()]
    if len(tables) > 1:
        raise DataError(f"{root}: has both labels.csv and images/labels.csv, expected one of them")
    return _from_csv(root, tables[0], known) if tables else _from_folders(root, known)


def _read_rows(table: Path) -> list[tuple[int, str, str]]:
    """(line, file, label) of every row."""
    try:
        if table.stat().st_size > _MAX_CSV_BYTES:
            raise DataError(f"{table}: larger than {_MAX_CSV_BYTES >> 20} MiB, not a table of labels")
        with table.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, skipinitialspace=True)
            columns = [column.strip() for column in reader.fieldnames or ()]
            if columns.count("file") != 1 or columns.count("label") != 1:
                raise DataError(f"{table}: has the columns {', '.join(columns)[:80]!r}, expected file,label")
            reader.fieldnames = columns
            return [(reader.line_num, row["file"] or "", (row["label"] or "").strip()) for row in reader]
    except OSError as error:
        raise DataError(f"{table}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{table}: not a CSV table in UTF-8 ({error})") from error


def _locate(bases: Sequence[Path], file: str) -> tuple[Path | None, str]:
    """The image that a row names, or what is wrong with it. A table must not reach outside its folder."""
    plain = PurePosixPath(file.replace("\\", "/"))
    if not file or "\0" in file or plain.is_absolute() or ".." in plain.parts or Path(file).is_absolute():
        return None, "is not a path inside the folder"
    for base in bases:
        path = base / plain
        if path.is_file():
            inside = path.resolve().is_relative_to(base.resolve())
            return (path, "") if inside else (None, "leads out of the folder")
    return None, "no such file"


def _from_csv(root: Path, table: Path, known: ClassNames) -> Dataset:
    rows = _read_rows(table)
    bases = [base for base in (root / "images", root) if base.is_dir()]
    labels, kind = known.column([label for _, _, label in rows])
    defects, paths, seen = [], [], dict[Path, int]()
    for (line, file, _), label in zip(rows, labels, strict=True):
        path, problem = _locate(bases, file)
        if path is None:
            defects.append(f"line {line}: {file or '(no file)'}: {problem}")
        elif path in seen:
            defects.append(f"line {line}: {file}: listed before, in line {seen[path]}")
        else:
            seen[path] = line
            paths.append(path)
        if isinstance(label, str):
            defects.append(f"line {line}: {file or '(no file)'}: {label}")
    if defects:
        raise DataError(f"{table}: defects in its {len(rows):,} rows, {len(defects):,} in all", defects)
    if not rows:
        raise DataError(f"{table}: has no rows")
    indices = tuple(label for label in labels if isinstance(label, int))
    return Dataset(folder=root, paths=tuple(paths), labels=indices, origin=f"{table.name}, by {kind}")


def _from_folders(root: Path, known: ClassNames) -> Dataset:
    folders = _subfolders(root)
    top = root / "images" if [folder.name for folder in folders] == ["images"] else root
    try:
        paths = find_images(top)
    except InputError as error:
        raise DataError(str(error)) from error
    parts = [path.relative_to(top).parts for path in paths]
    loose = [path.name for path, part in zip(paths, parts, strict=True) if len(part) == 1]
    if len(loose) == len(paths):
        return Dataset(folder=root, paths=tuple(paths), labels=None, origin="no labels")
    if loose:
        raise DataError(f"{top}: images in class folders, and {len(loose):,} beside the folders", loose)
    present = sorted({part[0] for part in parts})
    labels, kind = _folder_labels(top, present, known)
    indices = tuple(labels[part[0]] for part in parts)
    return Dataset(folder=root, paths=tuple(paths), labels=indices, origin=f"one folder per class, by {kind}")


def _subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror})") from error


def _folder_labels(top: Path, present: list[str], known: ClassNames) -> tuple[dict[str, int], str]:
    """Folder name -> class. Sorted order counts all folders, also those that hold no image."""
    labels, kind = known.column(present)
    unknown = {name: label for name, label in zip(present, labels, strict=True) if isinstance(label, str)}
    if not unknown:
        return {name: int(label) for name, label in zip(present, labels, strict=True)}, kind
    every = [folder.name for folder in _subfolders(top)]
    if len(unknown) == len(present) and len(every) == known.classes and not known.any(every):
        return {name: index for index, name in enumerate(every)}, "sorted order"
    defects = [f"{name}/: {problem}" for name, problem in unknown.items()]
    summary = f"{top}: {len(unknown):,} of {len(present):,} folders with images are no class of the model"
    raise DataError(f"{summary}, and the model has {known.classes:,} classes for {len(every):,} folders", defects)
