"""The arithmetic of each scheme: what is written computes what was meant."""

import numpy as np
import onnx_ir as ir
import pytest

from vit_edge.export.quantization.four_bits import gptq, nearest, write_blocks
from vit_edge.export.quantization.graph import set_weight
from vit_edge.export.quantization.half import store_half
from vit_edge.export.quantization.integer import write_dynamic, write_integer
from vit_edge.export.quantization.linears import find_linears, find_sites
from vit_edge.export.quantization.observation import observe
from vit_edge.export.quantization.planning import plain_plan
from vit_edge.export.quantization.qdq import write_qdq
from vit_edge.export.quantization.ranges import choose_range, quantize_weight, round_trip
from vit_edge.export.quantization.trial import compare, run
from vit_edge.runtime.session import open_session


def ranges_of(model: ir.Model, inputs: np.ndarray, levels: int = 256) -> dict:
    sites = find_sites(model.graph)
    seen, _, _ = observe(model, [str(site.source.name) for site in sites], inputs, len(inputs))
    return {site.name: plain_plan(site, seen[str(site.source.name)], levels).range for site in sites}


def batched(model: ir.Model, x: np.ndarray) -> np.ndarray:
    session = open_session(ir.to_proto(model).SerializeToString())
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def test_a_range_clips_where_that_loses_less() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1000, 4)).astype(np.float32)
    rows[0, 0] = 12
    weight = np.ones((4, 2), np.float32)
    chosen = choose_range(rows, float(rows.min()), 12.0, weight, levels=16)
    assert 16 * chosen.scale < 0.9 * (12 - rows.min())
    exact = choose_range(rows, float(rows.min()), 12.0, weight)  # 256 levels: the one large value is worth its range
    assert 256 * exact.scale == pytest.approx(12 - rows.min(), rel=0.05)
    assert (round_trip(np.zeros(3, np.float32), chosen.scale, chosen.zero_point) == 0).all()  # zero stays zero


def test_weights_keep_their_largest_and_zero_columns() -> None:
    weight = np.random.default_rng(0).standard_normal((16, 3)).astype(np.float32)
    weight[:, 1] = 0
    numbers, scale = quantize_weight(weight)
    assert np.abs(numbers).max(axis=0).tolist() == [127, 0, 127]
    assert np.abs(numbers * scale - weight).max() <= 0.5001 * scale.max()


def test_static_scales_make_answers_independent_of_batch_mates(graph: ir.Model, inputs: np.ndarray) -> None:
    made = write_integer(graph, ranges_of(graph, inputs), {})
    together, alone = batched(made, inputs), np.concatenate([batched(made, x[None]) for x in inputs])
    assert together.std(axis=0).min() > 0.05
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("levels", [256, 65536])
def test_so_do_they_in_qdq_up_to_the_rounding_of_float_products(
    graph: ir.Model, inputs: np.ndarray, levels: int
) -> None:
    made = write_qdq(graph, ranges_of(graph, inputs, levels), {})
    together, alone = batched(made, inputs), np.concatenate([batched(made, x[None]) for x in inputs])
    assert np.abs(together - alone).max() <= 2e-5 * np.abs(alone).max()  # as in the parity gate


def test_dynamic_scales_do_not(graph: ir.Model, inputs: np.ndarray) -> None:
    made = write_dynamic(graph, ranges_of(graph, inputs), {})
    together, alone = batched(made, inputs), np.concatenate([batched(made, x[None]) for x in inputs])
    assert np.abs(together - alone).max() > 1e-3


def test_integer_and_qdq_compute_the_same(graph: ir.Model, inputs: np.ndarray) -> None:
    ranges = ranges_of(graph, inputs)
    reference = run(graph, inputs)
    integer, qdq = (
        compare(run(write(graph, ranges, {}), inputs), reference, classes=True) for write in (write_integer, write_qdq)
    )
    assert integer.l2 < 0.1
    assert qdq.l2 == pytest.approx(integer.l2, rel=0.3)


def test_sixteen_bits_are_nearer_than_eight(graph: ir.Model, inputs: np.ndarray) -> None:
    reference = run(graph, inputs)
    eight, sixteen = (
        compare(run(write_qdq(graph, ranges_of(graph, inputs, levels), {}), inputs), reference, classes=True).l2
        for levels in (256, 65536)
    )
    assert sixteen < 0.8 * eight


def test_float_layers_stay_untouched(graph: ir.Model, inputs: np.ndarray) -> None:
    assert (run(write_integer(graph, {}, {}), inputs[:3]) == run(graph, inputs[:3])).all()


@pytest.mark.parametrize("size", [16, 32])
def test_blocks_are_written_as_the_operator_reads_them(graph: ir.Model, inputs: np.ndarray, size: int) -> None:
    linears = find_linears(graph.graph)
    blocks = {linear.name: nearest(linear.weight, size) for linear in linears}
    made = write_blocks(graph, blocks)
    assert sum(node.op_type == "MatMulNBits" for node in made.graph) == len(linears)
    plain = graph.clone()
    for linear in find_linears(plain.graph):
        set_weight(plain.graph, linear, blocks[linear.name].weight())
    expected, got = run(plain, inputs), run(made, inputs)
    assert np.abs(got - expected).max() <= 2e-5 * np.abs(expected).max()  # as in the parity gate
    assert np.abs(got - run(graph, inputs)).max() > 1e-2


def test_gptq_loses_less_than_rounding_to_nearest() -> None:
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((500, 64)) @ rng.standard_normal((64, 64))).astype(np.float32)  # correlated channels
    weight = rng.standard_normal((64, 24)).astype(np.float32)
    lost = [np.linalg.norm(rows @ (made.weight() - weight)) for made in (gptq(weight, rows, 32), nearest(weight, 32))]
    assert lost[0] < 0.8 * lost[1]


def test_half_precision_keeps_what_does_not_fit(graph: ir.Model, inputs: np.ndarray) -> None:
    reference = run(graph, inputs)
    made = store_half(graph)
    assert 0 < compare(run(made, inputs), reference, classes=True).l2 < 2e-3
    large = graph.clone()
    value = find_linears(large.graph)[0].nodes[0].inputs[1]
    assert value is not None
    assert value.const_value is not None
    numbers = value.const_value.numpy().copy()
    numbers.flat[0] = 1e5
    value.const_value = ir.tensor(numbers, name=value.name)
    assert np.isfinite(run(store_half(large), inputs[:2])).all()
