"""Candidates as the command line writes them."""

import pytest

from vit_edge.bench import Candidate, parse_candidate
from vit_edge.runtime.errors import ConfigError


def test_a_path_alone_takes_the_settings_of_the_command() -> None:
    assert parse_candidate("a/b.onnx", threads=3, providers=("P",)) == Candidate("a/b.onnx", 3, ("P",))


def test_settings_behind_the_path_come_first() -> None:
    text = "b.onnx@threads=1,provider=XExecutionProvider,session.dynamic_block_base=4"
    found = parse_candidate(text, threads=3, providers=("P",))
    assert found == Candidate("b.onnx", 1, ("XExecutionProvider",), {"session.dynamic_block_base": "4"})
    assert found.name == "b (threads=1, provider=X, dynamic_block_base=4)"


def test_an_at_sign_can_belong_to_the_name() -> None:
    assert parse_candidate("user@host.onnx").path == "user@host.onnx"
    assert parse_candidate("user@host.onnx@threads=2").path == "user@host.onnx"


def test_a_label_is_the_name() -> None:
    assert Candidate("a.onnx", threads=1, label="mine").name == "mine"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("threads=", "'threads=' is no KEY=VALUE"),
        ("threads=1,,", "'' is no KEY=VALUE"),
        ("threads=two", "threads=two is no number"),
        ("threads=-1", "threads=-1 is no number"),
        ("threads=99999", "threads=99999 is no number"),
        ("speed=high", "no setting 'speed'; there are threads, provider, mlas"),
        ("session.load_model_format=ORT", "no setting 'session.load_model_format'"),
    ],
)
def test_what_is_no_setting(settings: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_candidate(f"a.onnx@{settings}")
