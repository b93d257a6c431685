"""Text out of files is shown, never obeyed, and no name breaks JSON."""

import json

import pytest

from vit_edge.runtime.errors import InputError
from vit_edge.runtime.text import is_utf8, printable, shortened, to_json

HOSTILE = "a\x1b[31m\n\r\x7f\x9b2J\u202egpj\udcff"


def test_printable():
    assert printable("Élan 模型 🐈 a b") == "Élan 模型 🐈 a b"
    assert printable(HOSTILE).isprintable()
    assert printable("a\nb\x1b", keep="\n") == "a\nb\ufffd"


def test_json_is_safe_to_print_and_comes_back():
    value = {HOSTILE: [HOSTILE, "é🐈", "\U000e0001", 1.5]}
    for indent in (None, 2):
        text = to_json(value, indent=indent)
        assert text.replace("\n", "").isprintable()
        assert ("\n" in text) == (indent is not None)
        assert json.loads(text) == value
        text.encode()
    assert "é🐈" in to_json(value)


def test_shortened():
    assert shortened("abc", 3) == "abc"
    text = shortened("a" * 5000 + ": no such file", 100)
    assert len(text) == 100
    assert text.endswith("a: no such file")


@pytest.mark.parametrize(("path", "good"), [("ö/模型.onnx", True), ("d\udcff", False)])
def test_utf8(path, good):
    assert is_utf8(path) is good


def test_messages_of_errors_are_one_printable_line_of_bounded_length():
    text = str(InputError(f"{HOSTILE}{'x' * 10000}: no such file"))
    assert text.isprintable()
    assert len(text) <= 2000
    assert text.endswith(": no such file")
