import dataclasses
import json
import math

import numpy as np
import pytest
from PIL import Image

from vit_edge.runtime.errors import ConfigError, InputError
from vit_edge.runtime.images import decode
from vit_edge.runtime.preprocess import (
    Preprocess,
    centre_window,
    crop_to_size,
    normalise,
    prepare,
    resized_size,
)

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
RANDOM = np.random.default_rng(0)


def make_spec(**changes):
    fields = {
        "size": (32, 32),
        "resize": "short_side",
        "resize_to": (36, 36),
        "interpolation": "bicubic",
        "fill": (0, 0, 0),
        **IMAGENET,
    }
    return Preprocess(**(fields | changes))


def random_image(height, width, channels=3):
    shape = (height, width, channels)[: 2 + (channels > 1)]
    return Image.fromarray(RANDOM.integers(0, 256, shape, dtype=np.uint8))


def odd_sizes(count):
    return [tuple(int(side) for side in RANDOM.integers(1, 3000, 2)) for _ in range(count)]


def test_json_round_trip_keeps_every_field():
    spec = make_spec(mean=(0, 0, 0), std=(1, 1, 1), exif=False, crop_rounding="floor", pad_rounding="ceil")
    values = json.loads(json.dumps(spec.to_dict()))
    assert Preprocess.from_dict(values) == spec
    assert values.keys() == {field.name for field in dataclasses.fields(Preprocess)}
    assert values["mean"] == [0.0, 0.0, 0.0]
    assert type(values["mean"][0]) is float


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", [0, 32]),
        ("size", [32, 16385]),
        ("size", [32.0, 32]),
        ("size", [True, 32]),
        ("size", 32),
        ("resize", "stretch"),
        ("resize", ["exact"]),
        ("resize_to", [36, 37]),  # not square with rounding floor
        ("resize_to", [10**400, 10**400]),
        ("resize_rounding", "ceil"),
        ("interpolation", "area"),
        ("antialias", False),
        ("crop_rounding", None),
        ("pad_rounding", "half_even"),
        ("fill", [0, 0, 256]),
        ("fill", [0.0, 0.0, 0.0]),
        ("mean", [0.5, 0.5]),
        ("mean", [0.5, 0.5, math.nan]),
        ("mean", [0.5, 0.5, 10**400]),
        ("mean", ["0.5", 0.5, 0.5]),
        ("std", [0.5, 0.5, 0]),
        ("std", [0.5, 0.5, -0.5]),
        ("std", [0.5, 0.5, math.inf]),
        ("channels", 2),
        ("channels", 1),  # mean, std and fill are for three
        ("exif", 1),
    ],
)
def test_from_dict_refuses_wrong_values_by_name(field, value):
    values = make_spec().to_dict() | {field: value}
    with pytest.raises(ConfigError, match=r"^preprocessing: \w+ is .*expected") as caught:
        Preprocess.from_dict(values)
    assert "\n" not in str(caught.value)
    if field != "channels":
        assert field in str(caught.value)


def test_from_dict_refuses_unknown_and_missing_keys():
    values = make_spec().to_dict()
    with pytest.raises(ConfigError, match="unknown gamma"):
        Preprocess.from_dict(values | {"gamma": 2.2})
    del values["std"]
    with pytest.raises(ConfigError, match="missing std"):
        Preprocess.from_dict(values)
    with pytest.raises(ConfigError, match="got a list"):
        Preprocess.from_dict([])


def test_long_side_and_none_refuse_what_no_library_does():
    with pytest.raises(ConfigError, match="resize_rounding"):
        make_spec(resize="long_side")
    with pytest.raises(ConfigError, match="resize_to"):
        make_spec(resize="none")


def test_with_size_scales_the_target():
    assert make_spec().with_size((64, 64)).resize_to == (72, 72)
    assert make_spec().with_size((32, 64)).resize_to == (72, 72)
    assert make_spec(resize="exact").with_size((64, 16)).resize_to == (72, 18)
    assert make_spec().with_size((32, 32)) == make_spec()


@pytest.mark.parametrize("short", [7, 224, 256])
def test_short_side_truncates_the_long_side_as_torchvision_does(short):
    spec = make_spec(resize_to=(short, short))
    for height, width in [*odd_sizes(300), (short, short), (1, 1), (500, 375)]:
        rows, columns = resized_size((height, width), spec)
        assert min(rows, columns) == short
        # In double precision as torchvision does: size * long / short, from left to right.
        assert max(rows, columns) == math.trunc(short * max(height, width) / min(height, width))
        assert (rows if height <= width else columns) == short


@pytest.mark.parametrize("target", [(248, 213), (224, 224), (5, 90)])
def test_keeping_the_ratio_rounds_half_to_even_as_timm_does(target):
    cover = make_spec(resize_to=target, resize_rounding="half_even")
    fit = make_spec(resize="long_side", resize_to=target, resize_rounding="half_even")
    for height, width in odd_sizes(300):
        scales = (height / target[0], width / target[1])
        wanted = [
            tuple(max(1, round(side / scale)) for side in (height, width)) for scale in (min(scales), max(scales))
        ]
        assert resized_size((height, width), cover) == wanted[0]
        assert resized_size((height, width), fit) == wanted[1]
        assert all(side >= aim for side, aim in zip(wanted[0], target, strict=True))
        assert all(side <= aim for side, aim in zip(wanted[1], target, strict=True))


@pytest.mark.parametrize(
    ("rules", "starts"),
    [  # where lengths 5..12 start in a target of 8: negative is padding
        ({"crop_rounding": "half_even", "pad_rounding": "floor"}, [-1, -1, 0, 0, 0, 1, 2, 2]),  # torchvision, timm
        ({"crop_rounding": "floor", "pad_rounding": "ceil"}, [-2, -1, -1, 0, 0, 1, 1, 2]),  # transformers
        ({"crop_rounding": "floor", "pad_rounding": "floor"}, [-1, -1, 0, 0, 0, 1, 1, 2]),  # its Fast processors
    ],
)
def test_centre_window_follows_the_library(rules, starts):
    windows = [centre_window(length, 8, make_spec(**rules)) for length in range(5, 13)]
    assert [first - to for first, to, _ in windows] == starts
    assert [count for _, _, count in windows] == [5, 6, 7, 8, 8, 8, 8, 8]


def test_padding_takes_the_fill_colour_and_keeps_the_pixels():
    spec = make_spec(
        size=(9, 4), resize="none", resize_to=(9, 4), fill=(1, 2, 3), crop_rounding="floor", pad_rounding="ceil"
    )
    image = random_image(6, 7)
    cropped = crop_to_size(image, spec)
    assert cropped.shape == (9, 4, 3)
    assert cropped.dtype == np.uint8
    np.testing.assert_array_equal(cropped[2:8], np.asarray(image)[:, 1:5])
    np.testing.assert_array_equal(cropped[[0, 1, 8]], np.broadcast_to((1, 2, 3), (3, 4, 3)))


def test_every_size_gives_the_model_size():
    for rule, rounding in (("exact", "floor"), ("short_side", "floor"), ("long_side", "half_even")):
        for size in ((32, 32), (17, 40)):
            spec = make_spec(size=size, resize=rule, resize_rounding=rounding, resize_to=(30, 30))
            for height, width in [(1, 1), (1, 50), (50, 1), (31, 33), (200, 7)]:
                planes = prepare(random_image(height, width), spec)
                assert planes.shape == (3, *size)
                assert planes.dtype == np.float32
                assert planes.flags.c_contiguous


def test_a_sliver_is_refused_and_does_not_fill_the_memory():
    with pytest.raises(InputError, match="resized"):
        crop_to_size(random_image(1, 60000), make_spec(size=(224, 224), resize_to=(256, 256)))


def test_normalise_is_float32_arithmetic_for_all_256_values():
    spec = make_spec(size=(16, 16))
    pixels = np.repeat(np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1), 3, axis=-1)
    planes = normalise(pixels, spec)
    for channel in range(3):
        scaled = np.arange(256, dtype=np.float32) / np.float32(255)
        wanted = (scaled - np.float32(spec.mean[channel])) / np.float32(spec.std[channel])
        np.testing.assert_array_equal(planes[0, channel].ravel(), wanted)
    # transformers rescales in double precision and rounds once: the same float32 numbers.
    np.testing.assert_array_equal((np.arange(256) * 0.00392156862745098).astype(np.float32), scaled)


def test_normalise_equals_torch_to_the_bit():
    torch = pytest.importorskip("torch")
    spec = make_spec(size=(5, 7))
    pixels = RANDOM.integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
    mean, std = (torch.tensor(values, dtype=torch.float32)[:, None, None] for values in (spec.mean, spec.std))
    wanted = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(torch.float32).div(255).sub(mean).div(std)
    np.testing.assert_array_equal(normalise(pixels, spec), wanted.numpy())


@pytest.mark.parametrize("shape", [(5, 7, 3), (1, 7, 5, 3), (1, 3, 5, 7), (1, 5, 7, 1)])
def test_normalise_refuses_other_shapes(shape):
    with pytest.raises(InputError, match=r"expected uint8 \(N, 5, 7, 3\)"):
        normalise(np.zeros(shape, np.uint8), make_spec(size=(5, 7)))
    with pytest.raises(InputError, match="float64"):
        normalise(np.zeros((1, 5, 7, 3)), make_spec(size=(5, 7)))


def test_grey_models_get_one_plane():
    spec = make_spec(channels=1, mean=(0.5,), std=(0.25,), fill=(0,))
    planes = prepare(random_image(40, 50), spec)
    assert planes.shape == (1, 32, 32)
    assert prepare(random_image(40, 50, channels=1), spec).std() > 0


def test_swapped_mean_and_std_and_swapped_channels_are_noticed():
    image, spec = random_image(50, 60), make_spec()
    right = prepare(image, spec)
    assert np.abs(right - prepare(image, make_spec(mean=spec.std, std=spec.mean))).max() > 0.5
    blue_first = Image.fromarray(np.asarray(image)[:, :, ::-1].copy())
    assert np.abs(right - prepare(blue_first, spec)).max() > 0.5
    assert np.abs(right - prepare(image, make_spec(interpolation="bilinear"))).max() > 0.01


EXACT = {
    "timm_bicubic_crop0.9_center": make_spec(size=(224, 224), resize_to=(248, 248)),
    "hf_vit_exact224_bilinear": make_spec(
        size=(224, 224), resize="exact", resize_to=(224, 224), interpolation="bilinear"
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_real_photos_are_cut_as_by_the_peers(shared, name):
    expected = np.load(shared / "data" / "preprocess_expected.npz")
    files = [key.split("/")[1] for key in expected if key.startswith(f"{name}/")]
    assert len(files) == 6
    for file in files:
        photo = decode(shared / "data" / "photos_24" / file)
        cropped = crop_to_size(photo, EXACT[name])
        np.testing.assert_array_equal(cropped, expected[f"{name}/{file}"])
        other = dataclasses.replace(EXACT[name], interpolation="lanczos")  # canary: another filter must show
        assert (crop_to_size(photo, other) != cropped).mean() > 0.05
