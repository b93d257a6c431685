"""Data sets in every layout, and every defect by the name of its file."""

from pathlib import Path

import pytest

from vit_edge.accuracy.dataset import Dataset, read_dataset
from vit_edge.accuracy.errors import DataError

NAMES = ("cat", "dog", "eel")


def _touch(folder: Path, *names: str) -> Path:
    """Image files by name only: reading a data set opens none."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def _table(folder: Path, *rows: str, name: str = "labels.csv", header: str = "file,label") -> Path:
    (folder / name).write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return folder


def _files(data: Dataset) -> list[str]:
    return [data.name(i) for i in range(len(data))]


@pytest.mark.parametrize("below", ["", "images/"])
def test_a_table_beside_or_above_the_images(tmp_path: Path, below: str) -> None:
    _touch(tmp_path, f"{below}a.jpg", f"{below}b.png")
    data = read_dataset(_table(tmp_path, "b.png,2", "a.jpg,0"), 3, NAMES)
    assert _files(data) == [f"{below}b.png", f"{below}a.jpg"]
    assert data.labels == (2, 0)
    assert data.origin == "labels.csv, by index"


def test_a_table_among_the_images(tmp_path: Path) -> None:
    _touch(tmp_path, "images/a.jpg", "images/b.jpg")
    _table(tmp_path, "a.jpg,dog", "b.jpg,eel", name="images/labels.csv")
    assert read_dataset(tmp_path, 3, NAMES).labels == (1, 2)


def test_tables_as_spreadsheets_write_them(tmp_path: Path) -> None:
    _touch(tmp_path, "a b.jpg", "sub/c.jpg")
    text = '\ufefflabel , file,note\r\ndog,"a b.jpg",x\r\ncat,sub/c.jpg,\r\n'
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8", newline="")
    data = read_dataset(tmp_path, 3, NAMES)
    assert (_files(data), data.labels) == (["a b.jpg", "sub/c.jpg"], (1, 0))


def test_all_defects_are_listed_at_once(tmp_path: Path) -> None:
    _touch(tmp_path, "images/a.jpg", "images/b.jpg", "outside.jpg")
    _table(tmp_path, "a.jpg,0", "gone.jpg,1", "b.jpg,9", "a.jpg,0", "../x.jpg,1", "/etc/passwd,1", ",1", "b.jpg,fox")
    with pytest.raises(DataError) as caught:
        read_dataset(tmp_path, 3, NAMES)
    assert [defect.split(":", 1)[0] for defect in caught.value.defects] == [
        f"line {n}" for n in (3, 4, 5, 6, 7, 8, 9, 9)
    ]
    text = str(caught.value)
    assert "8 rows, 8 in all" in text
    assert "gone.jpg: no such file" in text
    assert "b.jpg: unknown label '9'" in text
    assert "a.jpg: listed before, in line 2" in text
    assert text.count("not a path inside the folder") == 3
    assert "b.jpg: unknown label 'fox'" in text


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    _touch(tmp_path, "secret.jpg", "data/a.jpg")
    (tmp_path / "data" / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    with pytest.raises(DataError, match="leads out of the folder"):
        read_dataset(_table(tmp_path / "data", "link.jpg,0"), 3)


@pytest.mark.parametrize(
    ("header", "rows", "problem"),
    [
        ("path,class", ["a.jpg,0"], "expected file,label"),
        ("file,label", [], "no rows"),
        ("", [], "expected file,label"),
    ],
)
def test_a_table_that_is_none(tmp_path: Path, header: str, rows: list[str], problem: str) -> None:
    _touch(tmp_path, "a.jpg")
    with pytest.raises(DataError, match=problem):
        read_dataset(_table(tmp_path, *rows, header=header), 3)


def test_a_table_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_bytes(b"file,label\n\xe9.jpg,1\n")
    with pytest.raises(DataError, match="UTF-8"):
        read_dataset(tmp_path, 3)


def test_two_tables_are_one_too_many(tmp_path: Path) -> None:
    _touch(tmp_path, "images/a.jpg")
    _table(_table(tmp_path, "a.jpg,0"), "a.jpg,1", name="images/labels.csv")
    with pytest.raises(DataError, match="one of them"):
        read_dataset(tmp_path, 3)


@pytest.mark.parametrize("below", ["", "images/"])
@pytest.mark.parametrize(
    ("folders", "labels", "kind"),
    [
        (("cat", "eel"), (0, 2), "name"),
        (("0", "2"), (0, 2), "index"),
        (("n01", "n02", "n03"), (0, 1, 2), "sorted order"),
    ],
)
def test_one_folder_per_class(
    tmp_path: Path, folders: tuple[str, ...], labels: tuple[int, ...], kind: str, below: str
) -> None:
    _touch(tmp_path, *(f"{below}{folder}/x.jpg" for folder in folders))
    data = read_dataset(tmp_path, 3, NAMES)
    assert (data.labels, data.origin) == (labels, f"one folder per class, by {kind}")


def test_sorted_order_counts_folders_without_images(tmp_path: Path) -> None:
    _touch(tmp_path, "n01/x.jpg", "n03/x.jpg")
    (tmp_path / "n02").mkdir()
    assert read_dataset(tmp_path, 3, NAMES).labels == (0, 2)


@pytest.mark.parametrize("folders", [("n01", "n02"), ("cat", "dog", "fox")])
def test_folders_that_are_no_classes_are_named(tmp_path: Path, folders: tuple[str, ...]) -> None:
    _touch(tmp_path, *(f"{folder}/x.jpg" for folder in folders))
    with pytest.raises(DataError, match=f"{folders[-1]}/: unknown label"):
        read_dataset(tmp_path, 3, NAMES)


def test_images_beside_class_folders_are_named(tmp_path: Path) -> None:
    _touch(tmp_path, "cat/a.jpg", "stray.jpg")
    with pytest.raises(DataError, match=r"stray\.jpg"):
        read_dataset(tmp_path, 3, NAMES)


@pytest.mark.parametrize("below", ["", "images/"])
def test_images_alone_have_no_labels(tmp_path: Path, below: str) -> None:
    data = read_dataset(_touch(tmp_path, f"{below}b.jpg", f"{below}a.jpg"), 3)
    assert (_files(data), data.labels) == ([f"{below}a.jpg", f"{below}b.jpg"], None)


def test_a_folder_that_is_missing_or_empty(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        read_dataset(tmp_path / "none", 3)
    with pytest.raises(DataError, match="no images"):
        read_dataset(tmp_path, 3)


def test_digits_are_names_where_all_of_them_are(tmp_path: Path) -> None:
    _touch(tmp_path, "a.jpg", "b.jpg")
    assert read_dataset(_table(tmp_path, "a.jpg,1", "b.jpg,3"), 3, ("1", "2", "3")).labels == (0, 2)
    assert read_dataset(_table(tmp_path, "a.jpg,0", "b.jpg,2"), 3, ("1", "2", "3")).labels == (0, 2)


def test_a_name_of_two_classes_needs_the_index(tmp_path: Path) -> None:
    _touch(tmp_path, "a.jpg")
    with pytest.raises(DataError, match="classes 0, 2: give the index"):
        read_dataset(_table(tmp_path, "a.jpg,crane"), 3, ("crane", "dog", "crane"))
