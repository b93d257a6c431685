import pytest

from vit_edge.presets import find_preset
from vit_edge.runtime.errors import ConfigError

HALF, IMAGENET = [0.5, 0.5, 0.5], [0.485, 0.456, 0.406]


@pytest.mark.parametrize(
    ("name", "width", "depth", "heads", "patch", "image"),
    [
        ("vit_tiny_patch16_224", 192, 12, 3, 16, 224),
        ("vit_small_patch32_384", 384, 12, 6, 32, 384),
        ("vit_base_patch16_224", 768, 12, 12, 16, 224),
        ("vit_large_patch16_384", 1024, 24, 16, 16, 384),
        ("vit_huge_patch14_224", 1280, 32, 16, 14, 224),
        ("deit_tiny_patch16_224", 192, 12, 3, 16, 224),
        ("deit_base_distilled_patch16_384", 768, 12, 12, 16, 384),
        ("deit3_medium_patch16_224", 512, 12, 8, 16, 224),
        ("vit_b_32", 768, 12, 12, 32, 224),
        ("vit_l_16", 1024, 24, 16, 16, 224),
        ("vit_h_14", 1280, 32, 16, 14, 224),
        ("tutorial_28", 8, 1, 2, 4, 28),
        ("test", 32, 2, 2, 8, 32),
    ],
)
def test_sizes_are_those_of_the_papers(name, width, depth, heads, patch, image):
    args = find_preset(name).args
    assert (args["embed_dim"], args["depth"], args["num_heads"]) == (width, depth, heads)
    assert (args["patch_size"], args["img_size"]) == (patch, image)


@pytest.mark.parametrize(
    ("name", "mean", "interpolation", "crop"),
    [
        ("vit_tiny_patch16_224", HALF, "bicubic", 0.9),
        ("vit_base_patch16_384", HALF, "bicubic", 1.0),
        ("deit_tiny_patch16_224", IMAGENET, "bicubic", 0.9),
        ("deit3_base_patch16_384", IMAGENET, "bicubic", 1.0),
        ("vit_b_16", IMAGENET, "bilinear", 0.875),
    ],
)
def test_preprocessing_is_that_of_the_family(name, mean, interpolation, crop):
    cfg = find_preset(name).pretrained_cfg
    assert (cfg["mean"], cfg["interpolation"], cfg["crop_pct"]) == (mean, interpolation, crop)


def test_a_tag_behind_a_dot_is_allowed():
    assert find_preset("vit_tiny_patch16_224.augreg_in21k_ft_in1k").name == "vit_tiny_patch16_224"


def test_variants_carry_what_their_names_say():
    assert find_preset("deit_tiny_distilled_patch16_224").args["distilled"] is True
    assert find_preset("deit3_small_patch16_224").args["no_embed_class"] is True
    assert find_preset("vit_base_patch16_rpn_224").args["res_post_norm"] is True


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "vit", "resnet50", "vit_tiny_patch0_224", "vit_tiny_patch16_0", "vit_tiny_patch16_225"),
        *("vit_tiny_distilled_patch16_224", "deit_tiny_patch16_rpn_224", "vit_giant_patch16_224", "vit_b_15"),
        pytest.param(f"vit_tiny_patch16_{'9' * 5000}", id="5000 digits"),
        "vit_tiny_patch16_\u0662\u0662\u0664",  # digits of another script
    ],
)
def test_other_names_are_refused_in_a_short_line(name):
    with pytest.raises(ConfigError, match="--list-archs shows all") as caught:
        find_preset(name)
    assert len(str(caught.value)) < 300


def test_near_names_are_suggested():
    with pytest.raises(ConfigError, match="did you mean vit_tiny_patch16_224"):
        find_preset("vit_tiny_patch16_244")
