import pytest

from vit_edge.preprocess_huggingface import from_huggingface
from vit_edge.runtime.errors import ConfigError

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


def test_processors():
    vit = from_huggingface(VIT)
    assert (vit.resize, vit.resize_to, vit.size, vit.interpolation) == ("exact", (224, 224), (224, 224), "bilinear")
    old = {"feature_extractor_type": "ViTFeatureExtractor", "size": 224, "resample": 2, **HF_HALF}
    untyped = {field: value for field, value in old.items() if field not in ("feature_extractor_type", "resample")}
    assert from_huggingface(old) == from_huggingface(untyped) == vit
    assert from_huggingface({"image_processor": VIT}) == vit

    clip = from_huggingface(CLIP)
    assert (clip.resize, clip.resize_to, clip.crop_rounding, clip.pad_rounding) == (
        "short_side",
        (224, 224),
        "floor",
        "ceil",
    )
    assert from_huggingface({**CLIP, "size": 224, "crop_size": 224}) == clip
    assert from_huggingface({"image_processor_type": "CLIPImageProcessor"}) == clip
    assert from_huggingface({**CLIP, "image_processor_type": "CLIPImageProcessorFast"}).pad_rounding == "floor"

    deit = from_huggingface({"image_processor_type": "DeiTImageProcessor", "size": 256, "crop_size": 224})
    assert (deit.resize, deit.resize_to, deit.size) == ("exact", (256, 256), (224, 224))
    dino = from_huggingface({**CLIP, "image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256}})
    assert (dino.resize, dino.resize_to, dino.size) == ("short_side", (256, 256), (224, 224))
    siglip = from_huggingface(
        {**HF_HALF, "image_processor_type": "SiglipImageProcessor", "size": {"height": 384, "width": 384}}
    )
    assert (siglip.resize, siglip.size, siglip.interpolation) == ("exact", (384, 384), "bicubic")


def test_convnext_crops_below_384_only():
    config = {**HF_HALF, "image_processor_type": "ConvNextImageProcessor", "resample": 3, "crop_pct": 0.875}
    small = from_huggingface({**config, "size": {"shortest_edge": 224}})
    assert (small.resize, small.resize_to, small.size) == ("short_side", (256, 256), (224, 224))
    assert from_huggingface({**config, "size": {"shortest_edge": 384}}).resize == "exact"
    assert from_huggingface({**config, "size": 384}, size=224) == small


def test_size_override_keeps_the_proportions():
    assert from_huggingface(VIT, size=384).resize_to == (384, 384)
    dino = {**CLIP, "size": {"shortest_edge": 256}}
    assert from_huggingface(dino, size=448).resize_to == (512, 512)
    assert from_huggingface(dino, size=(224, 448)).resize_to == (512, 512)
    deit = {"image_processor_type": "DeiTImageProcessor"}
    assert from_huggingface(deit, size=(384, 192)).resize_to == (438, 219)


def test_steps_that_are_off():
    plain = from_huggingface({**VIT, "do_normalize": False})
    assert (plain.mean, plain.std) == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    raw = from_huggingface({**VIT, "do_rescale": False, "do_normalize": False})
    assert raw.std == (1 / 255,) * 3  # the model is fed with 0..255
    uncut = from_huggingface({**CLIP, "do_resize": False})
    assert (uncut.resize, uncut.size) == ("none", (224, 224))
    assert from_huggingface({**CLIP, "size": {"height": 224, "width": 224}, "do_center_crop": False}).resize == "exact"
    for code, name in enumerate(("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")):
        assert from_huggingface({**VIT, "resample": code}).interpolation == name


@pytest.mark.parametrize(
    ("field", "config"),
    [
        ("rescale_factor", {**VIT, "rescale_factor": 1 / 127.5}),
        ("resample", {**VIT, "resample": 6}),
        ("size", {**VIT, "size": {"shortest_edge": 224}}),
        ("size", {**VIT, "size": {"shortest_edge": 224, "longest_edge": 512}}),
        ("size", {**VIT, "size": "224"}),
        ("size", {**VIT, "image_processor_type": "NewImageProcessor", "size": 224}),
        ("size", {field: value for field, value in VIT.items() if field not in ("size", "image_processor_type")}),
        ("do_resize", {**VIT, "do_resize": False}),
        ("do_resize", {**VIT, "do_resize": "yes"}),
        ("do_pad", {**VIT, "do_pad": True}),
        ("do_flip_channel_order", {**VIT, "do_flip_channel_order": True}),
        ("crop_pct", {**VIT, "crop_pct": 0.9}),
        ("crop_size", {**CLIP, "crop_size": {"height": 224}}),
        ("image_processor_type", {**VIT, "image_processor_type": "LevitImageProcessor"}),
        ("image_mean", {**VIT, "image_mean": [0.5, 0.5]}),
        ("image_mean", {"image_processor_type": "NewImageProcessor", "size": VIT["size"], "resample": 2}),
        ("size", {"image_processor_type": "NewImageProcessor"}),
        ("do_center_crop", {**HF_HALF, "size": VIT["size"], "crop_size": 224, "resample": 2}),
        ("size", {}),
    ],
)
def test_configs_that_cannot_be_reproduced_are_refused(field, config):
    with pytest.raises(ConfigError, match=rf"{field} is .*expected"):
        from_huggingface(config)
