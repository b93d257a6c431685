import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from vit_edge.checkpoints import LoadOptions, load_checkpoint
from vit_edge.positions import resample_positions, sincos_positions


@pytest.mark.parametrize(("tokens", "width"), [(50, 8), (5, 2), (197, 48)])
def test_sincos_is_the_papers_formula(tokens, width):
    expected = torch.empty(1, tokens, width, dtype=torch.float64)
    for position in range(tokens):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            expected[0, position, 2 * i] = math.sin(angle)
            expected[0, position, 2 * i + 1] = math.cos(angle)
    table = sincos_positions(tokens, width)
    assert table.dtype == torch.float32
    assert table.std() > 0.1
    # computed in float64 and rounded once: half a unit in the last place of numbers up to 1
    torch.testing.assert_close(table.double(), expected, rtol=0, atol=2**-24)


def test_prefix_rows_are_untouched_and_the_grid_is_not():
    table = torch.randn(1, 2 + 12, 5, generator=torch.Generator().manual_seed(0))
    resized = resample_positions(table, (4, 3), (6, 3), prefix=2)
    assert resized.shape == (1, 2 + 18, 5)
    torch.testing.assert_close(resized[:, :2], table[:, :2], rtol=0, atol=0)
    assert (resized[:, 2:14] - table[:, 2:14]).abs().max() > 0.1


def test_same_grid_gives_the_same_table():
    table = torch.randn(1, 13, 5, generator=torch.Generator().manual_seed(0))
    assert resample_positions(table, (4, 3), (4, 3), prefix=1) is table


def test_height_and_width_are_not_exchanged():
    """A table that varies down the image only still does so afterwards."""
    down = torch.arange(4.0)[:, None].expand(4, 3).reshape(1, 12, 1)
    resized = resample_positions(down, (4, 3), (8, 5), prefix=0).reshape(8, 5)
    assert resized.std(dim=0).min() > 0.5
    torch.testing.assert_close(resized, resized[:, :1].expand(8, 5), rtol=0, atol=1e-6)  # bicubic weights sum to 1


@pytest.mark.real
@pytest.mark.parametrize("grid", [(12, 12), (10, 10), (16, 16), (24, 24), (12, 16)])
def test_real_table_resampled_as_timm_does(shared, grid):
    with np.load(shared / "data" / "resize_expected.npz") as arrays:
        expected = torch.from_numpy(arrays[f"vit_tiny_pos_embed/{grid[0]}x{grid[1]}"])
    table = load_file(shared / "data" / "vit_tiny_patch16_224.safetensors")["pos_embed"]
    assert expected.std() > 0.01
    # the same torch operation; 1e-6 leaves room for another release's order of summation
    torch.testing.assert_close(resample_positions(table, (14, 14), grid, prefix=1), expected, rtol=0, atol=1e-6)


@pytest.mark.real
@pytest.mark.parametrize("size", [(48, 48), (32, 48)])
@pytest.mark.parametrize("name", ["timm_vit", "timm_vit_gap", "timm_deit3"])
def test_logits_at_another_size_are_timms(shared, name, size):
    with np.load(shared / "data" / "resize_expected.npz") as arrays:
        expected = torch.from_numpy(arrays[f"{name}/{size[0]}x{size[1]}"])
    images = np.random.default_rng(0).standard_normal((2, 3, *size)).astype(np.float32)
    loaded = load_checkpoint(shared / "peers" / name, LoadOptions(image_size=size))
    assert expected.std() > 0.1
    assert any("positions resampled from 4x4" in note for note in loaded.notes)
    assert loaded.model.config.image_size == size
    scale = float(expected.abs().max())
    # the bound on a peer's logits; float32 rounding measured: 1e-6
    torch.testing.assert_close(loaded.model(torch.from_numpy(images)), expected, rtol=0, atol=1e-5 * scale)
