"""Each operation: the shapes it asks for are those it takes, and its result is what its docstring says."""

import pytest
import torch

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.rules import (
    BlockDiagonal,
    ConvKernel,
    Copy,
    HeadsIn,
    HeadsOut,
    Identity,
    Join,
    Rule,
    Split,
    Transpose,
    assemble,
)

X = torch.arange(24.0)


@pytest.mark.parametrize(
    ("operation", "targets", "sources"),
    [
        (Copy(), [(2, 3)], [(2, 3)]),
        (Split(), [(2, 4), (2, 4), (2, 4)], [(6, 4)]),
        (Split(), [(2,), (2,), (2,)], [(6,)]),
        (Transpose(), [(2, 3)], [(3, 2)]),
        (ConvKernel(), [(5, 3, 2, 4)], [(2, 4, 3, 5)]),
        (HeadsOut(2), [(6, 6)], [(6, 2, 3)]),
        (HeadsOut(2), [(6,)], [(2, 3)]),
        (HeadsIn(2), [(6, 6)], [(2, 3, 6)]),
        (BlockDiagonal(3), [(6, 6)], [(2, 2)] * 3),
        (Join(3), [(6,)], [(2,)] * 3),
        (Identity(), [(4, 4), (4,)], []),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else None,
)
def test_asked_shapes_give_the_target_shapes(operation, targets, sources):
    assert operation.source_shapes(targets) == sources
    made = operation.apply([torch.zeros(shape) for shape in sources], targets)
    assert [tuple(tensor.shape) for tensor in made] == targets


def test_copy_adds_axes_of_length_one():
    (made,) = Copy().apply([X], [(1, 1, 24)])
    torch.testing.assert_close(made[0, 0], X, rtol=0, atol=0)


def test_split_keeps_the_order_q_k_v():
    q, k, v = Split().apply([X], [(8,), (8,), (8,)])
    assert (q[0], k[0], v[0]) == (0, 8, 16)


def test_transpose_turns_in_out_to_out_in():
    (made,) = Transpose().apply([X.reshape(4, 6)], [(6, 4)])
    assert made[5, 1] == X.reshape(4, 6)[1, 5]


def test_conv_kernel_moves_channels_to_the_front():
    source = X.reshape(2, 3, 1, 4)
    (made,) = ConvKernel().apply([source], [(4, 1, 2, 3)])
    assert made[3, 0, 1, 2] == source[1, 2, 0, 3]


def test_heads_out_puts_head_after_head():
    source = X.reshape(4, 2, 3)  # D, H, K
    (made,) = HeadsOut(2).apply([source], [(6, 4)])
    assert made[1 * 3 + 2, 3] == source[3, 1, 2]


def test_heads_in_reads_head_after_head():
    source = X.reshape(2, 3, 4)  # H, K, D
    (made,) = HeadsIn(2).apply([source], [(4, 6)])
    assert made[3, 1 * 3 + 2] == source[1, 2, 3]


def test_block_diagonal_sees_only_its_own_slice():
    blocks = [X[:4].reshape(2, 2) + 1, X[4:8].reshape(2, 2) + 1]
    (made,) = BlockDiagonal(2).apply(blocks, [(4, 4)])
    torch.testing.assert_close(made[:2, :2], blocks[0], rtol=0, atol=0)
    torch.testing.assert_close(made[2:, 2:], blocks[1], rtol=0, atol=0)
    assert not made[:2, 2:].any()
    assert not made[2:, :2].any()


def test_join_keeps_the_order():
    (made,) = Join(2).apply([X[:3], X[3:6]], [(6,)])
    torch.testing.assert_close(made, X[:6], rtol=0, atol=0)


def test_identity_changes_nothing():
    weight, bias = Identity().apply([], [(4, 4), (4,)])
    x = X.reshape(6, 4)
    torch.testing.assert_close(x @ weight.T + bias, x, rtol=0, atol=0)


def copies(*names):
    return [Rule((name,), (name,), Copy()) for name in names]


def test_assemble_reports_everything_at_once_folded_over_blocks():
    names = [f"blocks.{i}.{layer}.weight" for i in range(3) for layer in ("a", "b", "c", "d")]
    shapes = dict.fromkeys(names, (2, 3))
    tensors = {name: torch.zeros(2, 3) for name in names}
    for i in range(3):
        del tensors[f"blocks.{i}.a.weight"]
        tensors[f"blocks.{i}.b.weight"] = torch.zeros(3, 2)
        tensors[f"blocks.{i}.extra"] = torch.zeros(1)
    del tensors["blocks.1.c.weight"]
    tensors["blocks.0.d.weight"] = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(CheckpointError) as caught:
        assemble(copies(*names), tensors, shapes)
    message = str(caught.value)
    assert "4 missing, 3 unexpected, 4 wrongly shaped" in message
    assert "missing: blocks.{0..2}.a.weight, blocks.1.c.weight\n" in message
    assert "unexpected: blocks.{0..2}.extra\n" in message
    assert "blocks.{0..2}.b.weight: got (3, 2), expected (2, 3)" in message
    assert "blocks.0.d.weight: got int64, expected floating point" in message


def test_numbers_with_gaps_are_listed_one_by_one():
    tensors = {f"layer.{i}.x": torch.zeros(1) for i in (0, 2, 11)}
    with pytest.raises(CheckpointError, match=r"unexpected: layer\.\{0,2,11\}\.x"):
        assemble([], tensors, {})


def test_ignored_names_are_whole_matches():
    tensors = {"pooler": torch.zeros(1), "pooler2": torch.zeros(1)}
    with pytest.raises(CheckpointError, match=r"1 unexpected tensors\)\n  unexpected: pooler2$"):
        assemble([], tensors, {}, ignored=["pooler"])


def test_rules_for_parameters_the_model_lacks_do_not_count():
    assert assemble(copies("a"), {}, {}) == {}
    with pytest.raises(CheckpointError, match="unexpected: a"):
        assemble(copies("a"), {"a": torch.zeros(1)}, {})


def test_leading_axes_of_one_do_not_matter_and_others_do():
    assert assemble(copies("a"), {"a": torch.zeros(3)}, {"a": (1, 1, 3)})["a"].shape == (1, 1, 3)
    with pytest.raises(CheckpointError, match=r"a: got \(3, 1\), expected \(1, 3\)"):
        assemble(copies("a"), {"a": torch.zeros(3, 1)}, {"a": (1, 3)})
