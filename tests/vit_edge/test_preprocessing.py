import json
import math

import numpy as np
import pytest

from vit_edge.preprocessing import NAMES, describe, from_huggingface, from_timm, named, resolve
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.images import decode
from vit_edge.runtime.preprocess import crop_to_size, prepare

HALF = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
STEPS = {"do_resize": True, "do_rescale": True, "rescale_factor": 0.00392156862745098, "do_normalize": True}
HF_HALF = {**STEPS, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
VIT = {
    **HF_HALF,
    "image_processor_type": "ViTImageProcessor",
    "size": {"height": 224, "width": 224},
    "resample": 2,
}
CLIP = {
    **STEPS,
    "image_processor_type": "CLIPImageProcessor",
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
    "do_convert_rgb": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "resample": 3,
    "size": {"shortest_edge": 224},
}


def timm_config(**changes):
    cfg = {"input_size": [3, 224, 224], "interpolation": "bicubic", "crop_pct": 0.9, "crop_mode": "center", **HALF}
    return {
        "architecture": "vit_tiny_patch16_224",
        "num_classes": 1000,
        "pretrained_cfg": {
            "tag": "augreg",
            "test_input_size": [3, 288, 288],
            "fixed_input_size": True,
            **(cfg | changes),
        },
    }


# The specs of preprocess_expected.npz as their users have them.
CONFIGS = {
    "timm_bicubic_crop0.9_center": timm_config(),
    "timm_bilinear_crop0.875_center": timm_config(interpolation="bilinear", crop_pct=0.875, **IMAGENET),
    "timm_bicubic_crop1.0_squash": timm_config(crop_pct=1.0, crop_mode="squash"),
    # The stored crops have black borders: timm fills with 255 * mean, and they were made with mean 0.
    "timm_bicubic_crop1.0_border": timm_config(crop_pct=1.0, crop_mode="border", mean=[0.0, 0.0, 0.0]),
    "hf_vit_exact224_bilinear": VIT,
    "hf_clip_shortest224_bicubic_center": CLIP,
}


@pytest.mark.parametrize("name", CONFIGS)
def test_real_photos_are_cut_as_by_the_peer_that_wrote_the_config(shared, tmp_path, name):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[name]))
    spec = resolve(str(path), 224)
    expected = np.load(shared / "data" / "preprocess_expected.npz")
    keys = [key for key in expected if key.startswith(f"{name}/")]
    assert len(keys) == 6
    for key in keys:
        photo = decode(shared / "data" / "photos_24" / key.split("/")[1])
        np.testing.assert_array_equal(crop_to_size(photo, spec), expected[key])
        assert prepare(photo, spec).std() > 0.1


def test_the_peers_own_files_are_read(shared):
    for folder in sorted((shared / "peers").iterdir()):
        for name in ("preprocessor_config.json", "config.json"):
            path = folder / name
            if path.is_file() and ("timm" in folder.name or name.startswith("pre")):
                spec = resolve(str(path), 32)
                assert spec.size == (32, 32)
                assert describe(spec)


@pytest.mark.parametrize("crop_pct", [0.875, 0.9, 0.95, 1.0, 1.15, None])
@pytest.mark.parametrize("mode", ["center", "squash", "border", None])
def test_timm_geometry_for_many_sizes(crop_pct, mode):
    for size in [(224, 224), (384, 384), (518, 518), (96, 97), (200, 336)]:
        spec = from_timm({"crop_pct": crop_pct, "crop_mode": mode, **HALF}, size)
        assert spec.size == size
        assert spec.resize_to == tuple(math.floor(side / (crop_pct or 0.875)) for side in size)
        assert spec.resize == {"squash": "exact", "border": "long_side"}.get(mode, "short_side")
        square = spec.resize_to[0] == spec.resize_to[1]
        own_resize = mode == "border" or (mode != "squash" and not square)
        assert spec.resize_rounding == ("half_even" if own_resize else "floor")
        assert spec.fill == ((128,) * 3 if mode == "border" else (0,) * 3)  # round(255 * 0.5) is 128
        assert (spec.crop_rounding, spec.pad_rounding) == ("half_even", "floor")


def test_timm_defaults_fill_absent_and_null_fields():
    spec = from_timm({"mean": None, "interpolation": "", "crop_pct": 0})
    assert describe(spec) == (
        "short side 256 bicubic, centre crop 224x224, mean 0.485 0.456 0.406, std 0.229 0.224 0.225, RGB"
    )
    assert from_timm({}) == spec
    assert from_timm(timm_config()).size == (224, 224)  # test_input_size is not used
    assert from_timm(timm_config(), size=384).resize_to == (426, 426)
    grey = from_timm({"input_size": [1, 28, 28], **IMAGENET})
    assert grey.channels == 1
    assert grey.mean == pytest.approx((0.449,))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("crop_mode", "random"),
        ("crop_pct", -1),
        ("crop_pct", "0.9"),
        ("interpolation", "random"),
        ("input_size", [224, 224]),
        ("input_size", [4, 224, 224]),
        ("input_size", [3, 224, 0]),
        ("mean", [0.5, 0.5]),
        ("std", [0.5, "x", 0.5]),
    ],
)
def test_timm_wrong_fields_are_named(field, value):
    with pytest.raises(ConfigError, match=field):
        from_timm(timm_config(**{field: value}))


def test_the_presets_are_what_the_table_says():
    lines = {name: describe(named(name, 224)) for name in NAMES}
    assert lines == {
        "imagenet": "short side 256 bilinear, centre crop 224x224, mean 0.485 0.456 0.406, std 0.229 0.224 0.225, RGB",
        "half": "short side 248 bicubic, centre crop 224x224, mean 0.5 0.5 0.5, std 0.5 0.5 0.5, RGB",
        "clip": "short side 224 bicubic, centre crop 224x224, mean 0.4815 0.4578 0.4082, std 0.2686 0.2613 0.2758, RGB",
        "unit": "resize to 224x224 bilinear, mean 0 0 0, std 1 1 1, RGB",
    }
    assert (
        describe(named("half", 28, channels=1)) == "short side 31 bicubic, centre crop 28x28, mean 0.5, std 0.5, grey"
    )
    assert named("imagenet", 224, channels=1).std == pytest.approx((0.226,))
    assert "cover 231x426 bicubic, centre crop 208x384" in describe(named("half", (208, 384)))
    assert "fit inside 8x8 bicubic, centre crop or pad 8x8" in describe(
        from_timm(timm_config(crop_pct=1.0, crop_mode="border"), 8)
    )


def test_resolve_reads_names_and_files_by_content(tmp_path):
    assert resolve("half", 224) == named("half", 224)
    path = tmp_path / "any name"
    path.write_text(json.dumps(CLIP))
    assert resolve(str(path), 336) == from_huggingface(CLIP, 336)
    assert resolve(str(path), 336, channels=1).mean == pytest.approx((0.449164,), abs=1e-5)
    path.write_text(json.dumps(timm_config(input_size=[1, 28, 28])))
    assert resolve(str(path), 28, channels=1).channels == 1
    with pytest.raises(ConfigError, match="1 channel"):
        resolve(str(path), 28, channels=3)


def test_resolve_says_what_it_takes(tmp_path):
    with pytest.raises(ConfigError, match="imagenet, half, clip, unit"):
        resolve("imagnet", 224)
    path = tmp_path / "config.json"
    for content, message in [
        ('{"model_type": "vit", "image_size": 224}', "says nothing about images"),
        ("not json", "is not JSON"),
        ("[1, 2]", "JSON list"),
        ("[" * 100_000, "is not JSON"),
        (" " * 1_000_001, "1000001 bytes"),
    ]:
        path.write_text(content)
        with pytest.raises(ConfigError, match=message) as caught:
            resolve(str(path), 224)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="size is 0"):
        resolve("half", 0)
