"""The worker's own side: what it loads, and that it checks what it is going to time."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from vit_edge.bench import summary as summary_module
from vit_edge.bench import worker
from vit_edge.bench.bench import CandidateResult
from vit_edge.bench.estimate import Latency
from vit_edge.runtime.errors import ModelFileError


def answers(requests: list[dict[str, object]], model: worker.Loaded, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    told = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(each) + "\n" for each in [{}, *requests])))
    monkeypatch.setattr(sys, "stdout", told)
    worker.serve(lambda request: model)
    return [json.loads(line) for line in told.getvalue().splitlines()]


def only_one(x: worker.Array) -> worker.Array:
    if len(x) > 1:
        raise ModelFileError("only one")
    return x


def test_each_request_has_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    model = worker.Loaded(only_one, (3, 2, 2), {"precision": "fp32"}, nodes=lambda: {"X": 5})
    requests: list[dict[str, object]] = [{"batch": 1, "runs": 4}, {"batch": 2, "runs": 4}, {"nodes": True}]
    first, burst, failed, nodes = answers(requests, model, monkeypatch)
    assert set(first) == {"load", "first", "rss", "precision"}  # type: ignore[call-overload]
    assert len(burst["seconds"]) == 4  # type: ignore[index]
    assert burst["rss"] > 1_000_000  # type: ignore[index]
    assert failed == {"error": "only one"}
    assert nodes == {"nodes": {"X": 5}}


def test_what_fails_its_check_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> None:
        raise ModelFileError("golden check failed")

    model = worker.Loaded(only_one, (3, 2, 2), {"precision": "fp32"}, check)
    assert answers([{"batch": 1, "runs": 4}], model, monkeypatch) == [{"error": "golden check failed"}]


def test_inputs_that_are_no_images(tmp_path: Path) -> None:
    def write(*inputs: tuple[int, list[int | str]]) -> dict[str, object]:
        values = [helper.make_tensor_value_info(f"x{i}", *each) for i, each in enumerate(inputs)]
        out = helper.make_tensor_value_info("y", inputs[0][0], inputs[0][1])
        graph = helper.make_graph([helper.make_node("Identity", ["x0"], ["y"])], "g", values, [out])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "g.onnx")
        return {"path": str(tmp_path / "g.onnx"), "threads": 1, "providers": [], "entries": {}}

    image: tuple[int, list[int | str]] = (TensorProto.FLOAT, ["n", 3, 4, 4])
    assert worker._load(write(image)).run(np.ones((2, 3, 4, 4), np.float32)).shape == (2, 3, 4, 4)
    with pytest.raises(ModelFileError, match="has 2 inputs, expected one"):
        worker._load(write(image, image))
    with pytest.raises(ModelFileError, match="expected float32 images of a fixed size"):
        worker._load(write((TensorProto.FLOAT, ["n", 3, "h", "w"])))
    with pytest.raises(ModelFileError, match="expected float32 images of a fixed size"):
        worker._load(write((TensorProto.INT64, ["n", 3, 4, 4])))


@pytest.mark.parametrize(("others", "told"), [({}, ""), ({"CPU": 3}, "a: 3 of 10 on CPU instead of X")])
def test_nodes_that_the_asked_provider_did_not_run(others: dict[str, int], told: str) -> None:
    nodes = {"X": 10 - sum(others.values()), **others}
    result = CandidateResult(
        name="a", precision="fp32", providers=("X", "CPU"), nodes=nodes, latency=Latency(1, 1, 1, 1), ratio=None,
        throughput={}, failed={}, load_ms=1, first_ms=1, rss=1, bytes=1,
    )  # fmt: skip
    assert summary_module._elsewhere(result) == told
