"""The Swin Transformer: its windows, its configuration, its graph; weights of other libraries are read elsewhere."""

import dataclasses

import numpy as np
import onnxruntime as ort
import pytest
import torch

from vit_edge.export.model_file import save
from vit_edge.export.traceable import traceable
from vit_edge.export.tracing import trace
from vit_edge.presets_swin import swin_names, swin_preset
from vit_edge.runtime.errors import ConfigError
from vit_edge.swin import Swin, SwinBlock, SwinConfig, shift_mask
from vit_edge.window_positions import relative_index, resample_bias_table

SMALL = {"image_size": (40, 24), "width": 8, "depths": (1, 2), "heads": (1, 2), "window_size": ((4, 4), (2, 2))}


@pytest.fixture
def make_swin(randomise):
    def make(seed=0, **changes):
        return randomise(Swin(SwinConfig(**{**SMALL, "classes": 5, **changes})), seed)

    return make


@pytest.mark.parametrize("borders", ["timm", "huggingface"])
@pytest.mark.parametrize("image_size", [(64, 64), (40, 24), (44, 36), (20, 28)])
def test_a_batch_is_its_images_one_by_one(make_swin, make_images, image_size, borders):
    model = make_swin(image_size=image_size, borders=borders)
    images = make_images(model.config)
    logits = model(images)
    assert logits.shape == (3, 5)
    assert logits.std() > 0.1
    torch.testing.assert_close(torch.cat([model(image[None]) for image in images]), logits)


def test_the_order_of_shifting_and_padding_matters_only_where_windows_do_not_tile_the_map(make_swin, make_images):
    for size, differs in (((64, 64), False), ((44, 36), True)):
        changes = {"image_size": size, "depths": (2, 2), "window_size": ((4, 4),) * 2}
        a, b = make_swin(**changes), make_swin(**changes, borders="huggingface")
        images = make_images(a.config)
        assert (not torch.allclose(a(images), b(images), atol=1e-3)) == differs


def _regions(place, size, window, shift, period):
    """Where a cell comes to lie, which window that is, and which of the parts that the shift has brought there."""
    shifted = (place - shift) % period
    part = (shifted >= size - window).astype(int) + (shifted >= size - shift) if shift else np.zeros_like(place)
    return np.stack([shifted // window, part])


@pytest.mark.parametrize(("borders", "shifted"), [("timm", True), ("timm", False), ("huggingface", True)])
@pytest.mark.parametrize("map_size", [(8, 8), (9, 6), (5, 11), (3, 7)])
def test_a_cell_reaches_those_of_its_window_and_region_and_no_others(randomise, map_size, borders, shifted):
    config = SwinConfig(
        image_size=map_size, patch_size=(1, 1), width=8, depths=(2,), heads=(2,), window_size=((4, 4),), borders=borders
    )
    sizes = config.stages[0]
    mask = shift_mask(sizes) if shifted and any(sizes.shift) else None
    block = randomise(SwinBlock(config, 0, mask, shifted=shifted))
    x = torch.randn(1, *map_size, 8, generator=torch.Generator().manual_seed(0))
    shift = sizes.shift if shifted else (0, 0)
    period = sizes.padded if borders == "huggingface" else sizes.map
    rows, columns = (
        _regions(np.arange(sizes.map[i]), sizes.padded[i], sizes.window[i], shift[i], period[i]) for i in (0, 1)
    )
    for row, column in ((0, 0), (map_size[0] - 1, 1), (2, map_size[1] - 1), (1, 3)):
        changed = x.clone()
        changed[0, row, column, 0] += 1  # of one channel: the norm hides what all have
        reached = (block(changed) != block(x)).any(dim=3)[0].numpy()
        same_row = (rows == rows[:, row : row + 1]).all(axis=0)
        same_column = (columns == columns[:, column : column + 1]).all(axis=0)
        np.testing.assert_array_equal(reached, same_row[:, None] & same_column[None, :])


def test_without_the_mask_a_shifted_block_computes_something_else(make_swin, make_images):
    model = make_swin(image_size=(64, 64), depths=(2, 2))
    images = make_images(model.config)
    right = model(images)
    model.layers[0].blocks[1].attn.mask = None
    assert (model(images) - right).abs().max() > 1e-3


def test_a_table_has_one_row_for_each_offset():
    index = relative_index((2, 3))
    assert index.shape == (6, 6)
    assert sorted(set(index.flatten().tolist())) == list(range(3 * 5))
    assert index[0, 0] == index[5, 5] == 7  # a cell and itself: the middle of the table
    assert index[0, 1] == index[3, 4] == index[1, 2] == 6  # its right neighbour
    assert index[0, 3] == index[2, 5] == 2  # the one below


@pytest.mark.parametrize(
    ("old", "new", "first", "total", "moment"),
    [  # of sin(0, 1, 2, ...): what timm 1.0.31 resize_rel_pos_bias_table gives
        ((3, 3), (2, 2), (-0.279415, 0.656987, 0.989358, -0.99999), -1.74975, -14.8748),
        ((3, 3), (3, 2), (0.830372, 0.906799, 0.149519, -0.279415), 0.0989, -21.0836),
        ((4, 4), (4, 3), (0.846318, 0.894626, 0.120902, -0.763979), -1.99503, -2.283),
        ((2, 2), (7, 7), (0.0, 0.0, 0.0, 0.0), 61.61976, 5050.489),
        ((7, 7), (12, 12), (8e-06, 0.286203, 0.572398, 0.843184), -0.31963, -666.9263),
    ],
)
def test_tables_are_resampled_as_timm_does(old, new, first, total, moment):
    rows = (2 * old[0] - 1) * (2 * old[1] - 1)
    table = resample_bias_table(torch.arange(rows).float().sin()[:, None], old, new)[:, 0].double()
    assert table.shape == ((2 * new[0] - 1) * (2 * new[1] - 1),)
    np.testing.assert_allclose(table[:4].numpy(), first, atol=2e-6)
    assert float(table.sum()) == pytest.approx(total, abs=1e-4)
    assert float((table * torch.arange(len(table))).sum()) == pytest.approx(moment, abs=5e-3)


def test_a_window_larger_than_the_map_is_clipped_and_not_shifted():
    config = SwinConfig(**{**SMALL, "image_size": (16, 48), "window_size": ((7, 7), (7, 7))})
    stages = config.stages
    assert [(stage.map, stage.window, stage.shift) for stage in stages] == [
        ((4, 12), (4, 7), (0, 3)),
        ((2, 6), (2, 6), (0, 0)),
    ]
    both = dataclasses.replace(config, borders="huggingface").stages
    assert [(stage.window, stage.shift) for stage in both] == [((4, 4), (0, 0)), ((2, 2), (0, 0))]


def test_the_json_form_round_trips_and_is_strict():
    config = SwinConfig(**SMALL, classes=3, qkv_bias=False)
    fields = config.to_dict()
    assert fields["window_size"] == [[4, 4], [2, 2]]
    assert SwinConfig.from_dict(fields) == config
    for wrong in (
        {"window_size": [4, 4]},
        {"depths": [1, 2.0]},
        {"borders": "other"},
        {"wdith": 8},
        {"image_size": [40]},
    ):
        with pytest.raises(ConfigError):
            SwinConfig.from_dict({**fields, **wrong})
    with pytest.raises(ConfigError, match="incomplete"):
        SwinConfig.from_dict({})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": (42, 24)}, "height 42 is not divisible by patch size 4: use 40 or 44"),
        ({"image_size": (40, 3)}, "width 3 .*: use 4$"),
        ({"heads": (1, 3)}, "3 heads do not divide the stage's width 16"),
        ({"heads": (1,)}, "one value a stage"),
        ({"depths": (1, 0)}, r"depths must be 1\.\.512"),
        ({"window_size": ((4, 4), (0, 4))}, "window sides"),
        ({"mlp_ratio": 0.0}, "mlp_ratio"),
        ({"classes": -1}, "classes"),
        ({"image_size": (16384, 16384), "patch_size": (1, 1)}, "too large"),
    ],
)
def test_impossible_sizes_are_refused_with_the_reason(changes, message):
    with pytest.raises(ConfigError, match=message):
        SwinConfig(**{**SMALL, **changes})


PARAMETERS = {  # as timm counts them
    "swin_tiny_patch4_window7_224": 28_288_354,
    "swin_small_patch4_window7_224": 49_606_258,
    "swin_base_patch4_window7_224": 87_768_224,
    "swin_large_patch4_window7_224": 196_532_476,
    "swin_s3_tiny_224": 28_328_674,
    "swin_s3_small_224": 49_737_298,
    "swin_s3_base_224": 71_125_762,
}


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items())
def test_named_sizes_have_the_published_number_of_parameters(name, parameters):
    args, cfg = swin_preset(f"{name}.ms_in1k")
    windows = args["window_size"] if isinstance(args["window_size"], tuple) else (args["window_size"],) * 4
    config = SwinConfig(
        image_size=args["img_size"],
        width=args["embed_dim"],
        depths=args["depths"],
        heads=args["num_heads"],
        window_size=tuple((side, side) for side in windows),
    )
    with torch.device("meta"):
        model = Swin(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert cfg["crop_pct"] == 0.9


def test_larger_images_are_not_cropped_and_unknown_names_are_none():
    args, cfg = swin_preset("swin_base_patch4_window12_384")
    assert args["img_size"] == (384, 384)
    assert cfg["crop_pct"] == 1.0
    assert all(swin_preset(name) for name in swin_names())
    for name in ("swin_huge_patch4_window7_224", "swinv2_tiny_window8_256", "swin_s3_large_224", "swin_tiny_224"):
        assert swin_preset(name) is None


@pytest.mark.slow
@pytest.mark.parametrize("opset", [23, 18])
def test_the_exported_graph_takes_every_batch_size(make_swin, opset, tmp_path):
    model = make_swin(image_size=(20, 24), depths=(2,), heads=(2,), window_size=((4, 4),))  # shifted and padded
    graph = trace(traceable(model, opset=opset), (3, 20, 24), opset=opset)
    session = ort.InferenceSession(save(graph, tmp_path / "swin.onnx"), providers=["CPUExecutionProvider"])
    for batch in (1, 2, 3):
        images = torch.randn(batch, 3, 20, 24, generator=torch.Generator().manual_seed(batch))
        expected = model(images)
        assert expected.std() > 0.1
        (outputs,) = session.run(None, {"images": images.numpy()})
        torch.testing.assert_close(torch.from_numpy(outputs), expected, rtol=1e-5, atol=1e-5)
