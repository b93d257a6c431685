"""Pieces of a graph, and verdicts of targets."""

import onnx
import pytest

from vit_edge.doctor import verdicts
from vit_edge.doctor.partitions import count_partitions
from vit_edge.runtime.nodes import Node, read_nodes


def chain(*operators):
    return [Node(op, (f"v{i}",), (f"v{i + 1}",)) for i, op in enumerate(operators)]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([], 0),
        (chain("A", "A"), 1),
        (chain("X", "X"), 0),
        (chain("A", "X", "A"), 2),
        (chain("X", "A", "A", "X", "A", "X"), 2),
        # two branches, of which one runs through an X: what the first wave can take, it takes
        ([*chain("A"), Node("X", ("v1",), ("x",)), Node("A", ("v1",), ("a",)), Node("A", ("x", "a"), ("y",))], 2),
        # X reads nothing of the piece: it does not cut
        ([Node("X", ("in",), ("x",)), Node("A", ("in",), ("a",)), Node("A", ("x", "a"), ("y",))], 1),
    ],
)
def test_partitions(nodes, expected):
    assert count_partitions(nodes, {"A"}) == expected


@pytest.fixture
def judge(tmp_path):
    def run(body, opset=17, batch="N", domains=""):
        text = f'<ir_version: 8, opset_import: ["" : {opset}{domains}]> g (float[{batch},4] x) => (float[{batch},4] y)'
        onnx.save(onnx.parser.parse_model(f"{text} {{ {body} }}"), tmp_path / "m.onnx")
        return {verdict.target: verdict for verdict in verdicts(tmp_path / "m.onnx")}

    return run


def test_nodes_are_those_of_the_file(judge, tmp_path):
    judge("a = Relu (x) y = com.microsoft.Thing (a, x)", domains=', "com.microsoft" : 1')
    nodes = read_nodes(tmp_path / "m.onnx")
    assert nodes == (Node("Relu", ("x",), ("a",)), Node("com.microsoft::Thing", ("a", "x"), ("y",)))


def test_a_graph_that_runs_everywhere(judge):
    found = judge("a = Relu (x) y = Softmax (a)", batch="1")
    assert {name for name, verdict in found.items() if verdict.status == "runs"} == set(found) - {"xnnpack"}
    assert found["cpu"].minimum == "1.12"
    assert found["coreml"].advice == "measure it on the device"
    assert found["xnnpack"].fallback == {"Relu": 1}


def test_a_graph_that_is_cut(judge):
    found = judge("a = Relu (x) b = Erf (a) c = Relu (b) d = Erf (c) y = Relu (d)")
    nnapi = found["nnapi"]
    assert (nnapi.status, nnapi.partitions, nnapi.taken, nnapi.nodes) == ("splits", 3, 3, 5)
    assert nnapi.fallback == {"Erf": 2}
    assert nnapi.advice.startswith("use the CPU; fix the batch size")
    assert found["webgpu"].status == "runs"


def test_foreign_operators(judge):
    cpu = judge("y = other.Thing (x)", domains=', "other" : 1')["cpu"]
    assert (cpu.status, cpu.fallback) == ("fails", {"other::Thing": 1})
    assert "custom operators" in cpu.advice
