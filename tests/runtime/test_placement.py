"""Which provider ran each node, and that one which computes differently is stopped."""

import json
import tempfile

import numpy as np
import onnxruntime
import pytest

from vit_edge.runtime import predictor as predictor_module
from vit_edge.runtime.errors import ModelFileError, ProviderError
from vit_edge.runtime.placement import count_nodes, nodes_by_provider
from vit_edge.runtime.predictor import Predictor
from vit_edge.runtime.selftest import self_test

X = np.zeros((1, 3, 8, 8), np.float32)


def node(name, provider):
    return {"cat": "Node", "name": name, "args": {"provider": provider, "op_name": "Add"}}


def test_nodes_are_counted_once():
    events = [
        {"cat": "Session", "name": "model_run", "args": {}},
        node("a_kernel_time", "X"),
        node("a_kernel_time", "X"),
        node("b_kernel_time", "X"),
        node("c_kernel_time", "CPU"),
        {"cat": "Node", "name": "a_fence_before", "args": {"op_name": "Add"}},
    ]
    assert count_nodes(json.dumps(events)) == {"X": 2, "CPU": 1}


@pytest.mark.parametrize("profile", ["", "5", "[5]", '{"a": 1}', '[{"cat": "Node", "args": {"provider": "X"}}]'])
def test_what_is_no_profile(profile):
    with pytest.raises(ModelFileError, match="a profile that cannot be read"):
        count_nodes(profile)


def test_a_run_is_counted_and_leaves_no_file(write_model, tmp_path, monkeypatch):
    path, folder = write_model(), tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.chdir(folder)
    # two or three: onnxruntime may make one Gemm of MatMul and Add
    nodes = nodes_by_provider(path, "x", X)
    assert list(nodes) == ["CPUExecutionProvider"]
    assert nodes["CPUExecutionProvider"] in (2, 3)
    with pytest.raises(ModelFileError, match="cannot run it"):
        nodes_by_provider(path, "x", X[:, :2])
    with pytest.raises(ProviderError, match=r"has no Nope, only .*CPUExecutionProvider: choose among these"):
        nodes_by_provider(path, "x", X, providers=["Nope"])
    assert not list(folder.iterdir())


class _Deviating:
    """The CPU's session behind another provider's name, its outputs off by a part of themselves."""

    def __init__(self, session, off):
        self._session, self._off = session, off

    def run(self, names, inputs):
        return [output * (1 + self._off) for output in self._session.run(names, inputs)]


@pytest.fixture
def provider_that_is_off(monkeypatch):
    def install(off):
        def open_session(path, *, providers, threads, entries):
            assert providers == ["OtherExecutionProvider"]
            return _Deviating(onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]), off)

        monkeypatch.setattr(predictor_module, "open_session", open_session)
        return {"providers": ["OtherExecutionProvider"]}

    return install


def test_a_provider_that_computes_differently_is_stopped(write_model, provider_that_is_off):
    options = provider_that_is_off(1e-3)  # the file allows 2e-5
    with pytest.raises(ModelFileError, match=r"golden check failed: .*0\.001 off.*do not trust its predictions"):
        Predictor(write_model(), **options)
    assert [finding.passed for finding in self_test(write_model(), **options)] == [True, False]


def test_a_provider_that_rounds_differently_is_not(write_model, provider_that_is_off):
    options = provider_that_is_off(1e-6)
    assert Predictor(write_model(), **options).golden_report().passed
