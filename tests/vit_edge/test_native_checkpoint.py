import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from vit_edge.checkpoints import LoadOptions, load_checkpoint, save_checkpoint
from vit_edge.preprocessing import named
from vit_edge.runtime.errors import ConfigError

LABELS = [f"name {i}" for i in range(7)]


@pytest.fixture
def saved(make_model, tmp_path):
    """A small model saved with everything."""
    model = make_model(positions="learned_patches", layer_scale=True)
    path = tmp_path / "own.safetensors"
    spec = named("imagenet", model.config.image_size)
    save_checkpoint(model, path, name="small", preprocess=spec, labels=LABELS, about={"accuracy": 0.9, "seed": 1})
    return path


@pytest.fixture
def with_header(saved, tmp_path):
    """The same weights with fields of their header changed, or another text in its place."""

    def change(text=None, **fields):
        with safe_open(saved, framework="pt") as opened:
            header = json.loads(opened.metadata()["vit_edge"])
        path = tmp_path / "changed.safetensors"
        save_file(load_file(saved), path, metadata={"vit_edge": text or json.dumps({**header, **fields})})
        return path

    return change


def test_everything_comes_back(saved, make_model, make_images):
    model = make_model(positions="learned_patches", layer_scale=True)
    loaded = load_checkpoint(saved)
    assert loaded.model.config == model.config
    assert (loaded.name, loaded.format, loaded.notes) == ("small", "vit-edge", ())
    assert loaded.labels == tuple(LABELS)
    assert loaded.about == {"accuracy": 0.9, "seed": 1}
    assert loaded.preprocess == named("imagenet", model.config.image_size)
    images = make_images(model.config)
    assert model(images).std() > 0.1
    torch.testing.assert_close(loaded.model(images), model(images), rtol=0, atol=0)


def test_writing_twice_gives_the_same_bytes(saved, make_model, tmp_path):
    model = make_model(positions="learned_patches", layer_scale=True)
    spec = named("imagenet", model.config.image_size)
    again = tmp_path / "again.safetensors"
    save_checkpoint(model, again, name="small", preprocess=spec, labels=LABELS, about={"seed": 1, "accuracy": 0.9})
    assert again.read_bytes() == saved.read_bytes()


def test_name_of_the_file_means_nothing(saved, tmp_path):
    other = tmp_path / "photo.jpg"
    other.write_bytes(saved.read_bytes())
    assert load_checkpoint(other).format == "vit-edge"


def test_another_size_resamples_positions_and_preprocessing(saved):
    loaded = load_checkpoint(saved, LoadOptions(image_size=(32, 32)))
    assert loaded.model.config.grid == (8, 4)
    assert loaded.preprocess.size == (32, 32)


def test_heads_of_the_user_win_and_are_told(saved, make_images):
    loaded, other = load_checkpoint(saved), load_checkpoint(saved, LoadOptions(heads=4))
    assert other.model.config.heads == 4
    assert other.notes == ("heads: 4 as given; the checkpoint's config says 2",)
    images = make_images(loaded.model.config)
    assert (loaded.model(images) - other.model(images)).abs().max() > 1e-2


def test_heads_that_cannot_be_are_refused(saved, refused):
    assert "heads must be 1.." in refused(saved, heads=0)
    assert "5 heads do not divide width 16" in refused(saved, heads=5)


def test_another_architecture_is_refused(saved, refused):
    message = refused(saved, arch="vit_tiny_patch16_224")
    assert "is no vit_tiny_patch16_224: width is 192 there, 16 here; depth is 12 there, 2 here" in message


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '"text"',
        pytest.param("[" * 100_000, id="deeply nested"),
        '{"config": 1}',
        '{"name": "a", "name": "b"}',
        "{} {}",
        pytest.param('{"config": ' + "9" * 5000 + "}", id="5000 digits"),
    ],
)
def test_a_header_that_is_none_is_refused(with_header, refused, text):
    assert "damaged vit_edge header" in refused(with_header(text))


@pytest.mark.parametrize("field", ["config", "name", "preprocess", "labels", "about", "extra"])
def test_a_damaged_field_is_refused_and_a_whole_one_is_not(with_header, refused, field):
    fine = [("name", "x"), ("labels", []), ("about", {}), ("about", {"a": 1})]
    for value in (None, True, 0, -1, 1.5, 10**30, "x", [], [1], {}, {"a": 1}, ["a", None]):
        path = with_header(**{field: value})
        if (field, value) in fine:
            assert load_checkpoint(path).format == "vit-edge"
        else:
            assert "damaged vit_edge header" in refused(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": 10**9}, "depth must be 1..512"),
        ({"image_size": [16384, 16384], "patch_size": [1, 1], "positions": "sincos"}, "tokens are more than"),
        ({"depth": 3}, "missing: blocks.2."),
        ({"depth": 1}, "unexpected: blocks.1."),
        ({"mlp_width": 1 << 18}, "expected (262144, 16)"),
        ({"width": 16384, "mlp_width": 1 << 18, "depth": 30}, "wrongly shaped"),  # 500 GB, if it were built
    ],
)
def test_a_config_that_is_not_the_weights_is_refused_before_memory_is_taken(
    with_header, make_model, refused, changes, message
):
    config = make_model(positions="learned_patches", layer_scale=True).config.to_dict()
    assert message in refused(with_header(config=config | changes))


def test_labels_of_another_number_are_not_used_and_told(with_header):
    loaded = load_checkpoint(with_header(labels=["a", "b"]))
    assert loaded.labels == ()
    assert loaded.notes == (
        "labels: the checkpoint has 2 names for 7 classes, so none are used; --labels FILE gives the right ones",
    )


def test_what_cannot_be_read_back_is_not_written(make_model, tmp_path):
    model, path = make_model(), tmp_path / "own.safetensors"
    spec = named("half", model.config.image_size)
    with pytest.raises(ConfigError, match="got 2 labels, the model has 7 classes"):
        save_checkpoint(model, path, name="x", preprocess=spec, labels=["a", "b"])
    with pytest.raises(ConfigError, match="header cannot be written"):
        save_checkpoint(model, path, name="x", preprocess=spec, about={"loss": float("nan")})
    assert not path.exists()
