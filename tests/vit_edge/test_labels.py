import json

import pytest

from vit_edge.labels import read_labels
from vit_edge.runtime.errors import ConfigError


@pytest.fixture
def write(tmp_path):
    def to_file(content):
        path = tmp_path / "labels"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to_file


@pytest.mark.parametrize(
    "text",
    [
        "cat\ndog\nBär\n",
        "cat\r\ndog\r\nBär",
        "\ufeffcat\ndog\nBär\n\n",
        json.dumps(["cat", "dog", "Bär"]),
        json.dumps({"2": "Bär", "0": "cat", "1": "dog"}),
    ],
    ids=["lines", "windows", "byte order mark", "list", "object"],
)
def test_all_forms_give_the_same_names(write, text):
    assert read_labels(write(text), 3) == ("cat", "dog", "Bär")


def test_numbers_are_names_too(write):
    assert read_labels(write("[0, 1, 2]"), 3) == ("0", "1", "2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\nb\n", "got 2 names, the model has 3 classes"),
        ("", "got 0 names"),
        (b"\xff\xfe\x00", "not UTF-8"),
        ("[1, 2", "not a JSON list"),
        ('{"0": "a", "2": "b", "3": "c"}', "keys 0..n-1"),
        pytest.param("[" * 100_000, "not a JSON list", id="deeply nested"),
        ('{"0": ["n01440764", "tench"], "1": ["n", "a"], "2": ["n", "b"]}', "name 0 is .*, expected a text"),
    ],
)
def test_what_is_no_list_of_names_is_refused_in_one_line(write, content, message):
    with pytest.raises(ConfigError, match=message) as caught:
        read_labels(write(content), 3)
    assert len(str(caught.value).splitlines()) == 1


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none.*No such file"):
        read_labels(tmp_path / "none", 3)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_labels(tmp_path, 3)
