import json

import pytest

from vit_edge.config import ViTConfig, valid_heads
from vit_edge.runtime.errors import ConfigError

NASTY = [
    None,
    True,
    "x",
    "",
    -1,
    0,
    0.5,
    10**30,
    float("nan"),
    float("inf"),
    [],
    [1],
    [0, 0],
    [1, 2, 3],
    ["a", "b"],
    {},
]


def test_derived_sizes(make_config):
    config = make_config(distillation_token=True)
    assert config.grid == (4, 3)
    assert config.prefix_tokens == 2
    assert config.tokens == 14
    assert config.head_width == 8


def test_json_round_trip_keeps_everything(make_config):
    config = make_config(positions="sincos", norm_place="post", activation="relu", norm_eps=1e-12, qkv_bias=False)
    assert ViTConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 0}, r"heads must be 1\.\."),
        ({"heads": 3}, "3 heads do not divide width 16: use 1, 2"),
        ({"depth": 0}, r"depth must be 1\.\."),
        ({"depth": 10**9}, r"depth must be 1\.\.512, got 1000000000"),
        ({"width": 10**9, "heads": 1}, r"width must be 1\.\."),
        ({"classes": -1}, "classes and registers out of range: -1"),
        ({"norm_eps": 0.0}, "norm_eps must be above 0"),
        ({"norm_eps": float("nan")}, "norm_eps must be above 0"),
        ({"image_size": (15, 24)}, "height 15 is not divisible by patch size 4: use 12 or 16"),
        ({"image_size": (16, 25)}, "width 25 is not divisible by patch size 8: use 24 or 32"),
        ({"image_size": (4, 4)}, "width 4 is not divisible by patch size 8: use 8"),
        ({"image_size": (0, 8)}, r"sides must be 1\.\."),
        ({"patch_size": (0, 0)}, r"sides must be 1\.\."),
        ({"patch_size": (4,)}, r"\(height, width\)"),
        ({"image_size": (4096, 4096), "patch_size": (1, 1)}, "16777217 tokens are more than"),
        ({"class_token": False}, "pool 'class' needs a class token"),
        ({"distillation_token": True, "pool": "mean"}, "a distillation token needs pool 'class'"),
        ({"distillation_token": True, "positions": "learned_patches"}, "positions on all tokens"),
        ({"distillation_head": True}, "needs a distillation token"),
        ({"positions": "sincos", "width": 15, "heads": 3}, "need an even width, got 15"),
        ({"mlp": "single"}, "keeps width 16, got mlp_width 24"),
    ],
)
def test_contradictions_are_refused_with_what_would_do(make_config, changes, message):
    with pytest.raises(ConfigError, match=message):
        make_config(**changes)


@pytest.mark.parametrize("key", ViTConfig.__dataclass_fields__)
def test_no_json_value_gives_anything_but_a_config_or_a_config_error(make_config, key):
    fields = make_config().to_dict()
    for value in NASTY:
        try:
            config = ViTConfig.from_dict(fields | {key: value})
        except ConfigError as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017  # both outcomes are allowed
        else:
            assert type(config.to_dict()[key]) is type(value)


def test_unknown_and_missing_keys_are_named(make_config):
    with pytest.raises(ConfigError, match="unknown configuration keys: dropout, rope"):
        ViTConfig.from_dict({**make_config().to_dict(), "rope": 1, "dropout": 0})
    with pytest.raises(ConfigError, match="heads"):
        ViTConfig.from_dict({name: value for name, value in make_config().to_dict().items() if name != "heads"})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("pool", "max", "pool must be one of class, mean, .*, got 'max'"),
        ("width", "16", "width must be int, got '16'"),
        ("width", True, "width must be int"),
        ("qkv_bias", 1, "qkv_bias must be bool"),
        ("image_size", 16, "image_size must be"),
        ("image_size", [16.0, 24.0], "image_size must be int"),
        ("pool", "x" * 1_000_000, "pool must be one of class, mean, .*, got 'x{80}'$"),
    ],
)
def test_wrong_types_are_named(make_config, key, value, message):
    with pytest.raises(ConfigError, match=message):
        ViTConfig.from_dict({**make_config().to_dict(), key: value})


def test_valid_heads_divide_the_width():
    assert valid_heads(12) == [1, 2, 3, 4, 6, 12]
