"""Hugging Face's families: what is read of a config.json, what is refused, and which weights are left unused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from vit_edge.checkpoints import LoadOptions, load_checkpoint

NASTY = [None, True, "x", "", -1, 0, 2.5, 10**30, 10**9, 1e300, [], [1], [0, 0], [1, 2, 3], ["a", "b"], {}, {"a": []}]
SIZES = ["hidden_size", "num_hidden_layers", "num_attention_heads", "image_size", "patch_size", "num_channels"]
SIZES += ["hidden_act", "layer_norm_eps"]
DINOV2 = [*SIZES, "qkv_bias", "mlp_ratio", "use_swiglu_ffn", "num_register_tokens", "architectures", "id2label"]
TOWER = [*SIZES, "intermediate_size", "vision_use_head"]
DINOV3 = [*SIZES, "intermediate_size", "rope_theta", "use_gated_mlp", "num_register_tokens", "key_bias", "mlp_bias"]
TOLERANCE = 1e-5  # the issue's, relative to the largest magnitude


@pytest.fixture
def folder(peer, tmp_path):
    """A peer's folder with its config.json and its tensors changed."""

    def make(name, change=lambda config: None, tensors=lambda state: state):
        made = tmp_path / name
        shutil.copytree(peer(name).folder, made, dirs_exist_ok=True, copy_function=shutil.copyfile)
        made.chmod(0o755)
        config = json.loads((made / "config.json").read_text())
        change(config)
        (made / "config.json").write_text(json.dumps(config))
        save_file(tensors(load_file(peer(name).weights)), made / "model.safetensors")
        return made

    return make


@pytest.fixture
def dinov3_folder(tmp_path):
    """A DINOv3 of one block under transformers' names, zeros throughout."""

    def make(**changes):
        shapes = {f"layer.0.attention.{name}_proj.weight": (8, 8) for name in "qkvo"}
        shapes |= {f"layer.0.attention.{name}_proj.bias": (8,) for name in "qvo"}
        shapes |= {f"layer.0.layer_scale{n}.lambda1": (8,) for n in (1, 2)}
        norms = ("norm", "layer.0.norm1", "layer.0.norm2")
        shapes |= {f"{norm}.{part}": (8,) for norm in norms for part in ("weight", "bias")}
        shapes |= {"layer.0.mlp.up_proj.weight": (12, 8), "layer.0.mlp.up_proj.bias": (12,)}
        shapes |= {"layer.0.mlp.down_proj.weight": (8, 12), "layer.0.mlp.down_proj.bias": (8,)}
        shapes |= {"embeddings.cls_token": (1, 1, 8), "embeddings.mask_token": (1, 1, 8)}
        shapes |= {"embeddings.register_tokens": (1, 0, 8)}
        shapes |= {"embeddings.patch_embeddings.weight": (8, 3, 4, 4), "embeddings.patch_embeddings.bias": (8,)}
        save_file({name: torch.zeros(shape) for name, shape in shapes.items()}, tmp_path / "model.safetensors")
        config = {"architectures": ["DINOv3ViTModel"], "model_type": "dinov3_vit", "hidden_size": 8, "image_size": 8}
        config |= {"patch_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
        (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
        return tmp_path

    return make


@pytest.mark.real
@pytest.mark.parametrize("name", ["hf_dinov2", "hf_dinov2_reg"])
@pytest.mark.parametrize("field", DINOV2)
def test_no_value_in_dinov2s_config_gives_a_traceback(folder, loaded_or_refused, name, field):
    for value in NASTY:
        made = folder(name, lambda config, value=value: config.update({field: value}))
        loaded = loaded_or_refused(made, value)
        assert loaded is None or loaded.model.config.width == 48


@pytest.mark.real
@pytest.mark.parametrize("name", ["hf_clip", "hf_siglip"])
@pytest.mark.parametrize("field", TOWER)
def test_no_value_in_a_vision_config_gives_a_traceback(folder, loaded_or_refused, name, field):
    for value in NASTY:
        made = folder(name, lambda config, value=value: config["vision_config"].update({field: value}))
        loaded = loaded_or_refused(made, value)
        assert loaded is None or loaded.model.config.width == 48


@pytest.mark.real
@pytest.mark.parametrize("name", ["hf_clip", "hf_siglip"])
def test_no_vision_config_gives_a_traceback(folder, loaded_or_refused, name):
    """Where it is absent every size is the class's default, which these weights do not have."""
    for value in NASTY:
        made = folder(name, lambda config, value=value: config.update(vision_config=value))
        assert loaded_or_refused(made, value) is None


@pytest.mark.parametrize("field", DINOV3)
def test_no_value_in_dinov3s_config_gives_a_traceback(dinov3_folder, loaded_or_refused, field):
    for value in NASTY:
        loaded = loaded_or_refused(dinov3_folder(**{field: value}), value)
        assert loaded is None or loaded.model.config.width == 8


def test_what_dinov3s_mlp_cannot_be_is_told(dinov3_folder, refused):
    assert load_checkpoint(dinov3_folder()).model.config.rotary.temperature == 100.0
    assert "hidden_act 'silu' is not covered" in refused(dinov3_folder(hidden_act="silu"))
    assert "with use_gated_mlp is not covered: silu is" in refused(dinov3_folder(use_gated_mlp=True))


@pytest.mark.real
@pytest.mark.parametrize(
    ("architecture", "model_type"),
    [
        ("ViTMAEForPreTraining", "vit_mae"),
        ("ViTForMaskedImageModeling", "vit"),
        ("BeitForImageClassification", "beit"),
        ("MobileViTForImageClassification", "mobilevit"),
        ("ConvNextForImageClassification", "convnext"),
        ("CLIPVisionModelWithProjection", "clip_vision_model"),
        ("Dinov2Backbone", "dinov2"),
        ("x" * 100_000, "vit"),
    ],
)
def test_what_is_not_covered_is_named_and_the_families_that_are(folder, refused, architecture, model_type):
    made = folder("hf_vit", lambda config: config.update(architectures=[architecture], model_type=model_type))
    message = refused(made)
    assert f"{architecture[:80]} is not covered" in message
    assert all(family in message for family in ("ViT", "DeiT", "DINOv2", "DINOv3", "CLIP", "SigLIP", "Swin"))


@pytest.mark.real
@pytest.mark.parametrize("name", ["hf_clip", "hf_siglip", "hf_dinov2", "hf_dinov2_reg"])
def test_weights_without_their_config_say_what_is_needed(peer, tmp_path, refused, name):
    shutil.copyfile(peer(name).weights, tmp_path / "alone.safetensors")
    assert "no config.json, which tells heads and sizes: give the folder" in refused(tmp_path / "alone.safetensors")


@pytest.mark.real
@pytest.mark.parametrize("name", ["hf_vit", "hf_clip", "hf_siglip", "hf_dinov2", "hf_dinov2_reg"])
def test_missing_and_foreign_tensors_are_named(folder, refused, name):
    def without_classifier(state):
        return {key: tensor for key, tensor in state.items() if key != "classifier.weight"}

    assert "tensor classifier.weight is missing" in refused(folder(name, tensors=without_classifier))
    message = refused(folder(name, tensors=lambda state: {**state, "adapter.weight": torch.ones(1)}))
    assert "unexpected: adapter.weight" in message


@pytest.mark.real
def test_the_pooling_head_is_needed_where_it_makes_the_features(folder, refused):
    def backbone(config):
        config["architectures"] = ["SiglipModel"]
        config["vision_config"]["vision_use_head"] = False

    def without_classifier(state):
        return {name: tensor for name, tensor in state.items() if not name.startswith("classifier.")}

    assert "without it there are no pooled features" in refused(folder("hf_siglip", backbone, without_classifier))


@pytest.mark.real
def test_weights_that_are_left_unused_are_told(folder):
    pooler = {"pooler.dense.weight": torch.ones(48, 48), "pooler.dense.bias": torch.ones(48)}

    def bare(state):
        inner = {name.removeprefix("vit."): tensor for name, tensor in state.items() if name.startswith("vit.")}
        return {**inner, **pooler}

    loaded = load_checkpoint(folder("hf_vit", lambda config: config.update(architectures=["ViTModel"]), bare))
    assert loaded.output == "features"
    assert loaded.labels == ()
    assert loaded.notes == ("pooler.dense is not used: the features are the class token behind the last norm",)


@pytest.mark.real
def test_labels_that_do_not_fit_the_classifier_are_told(folder):
    loaded = load_checkpoint(folder("hf_dinov2", lambda config: config["id2label"].pop("6")))
    assert loaded.labels == ()
    assert any("6 names for 7 classes" in note for note in loaded.notes)


@pytest.mark.real
def test_a_preprocessor_of_another_size_is_told(peer, folder):
    made = folder("hf_dinov2")
    settings = json.loads((made / "preprocessor_config.json").read_text())
    settings["size"] = {"height": 24, "width": 40}
    (made / "preprocessor_config.json").write_text(json.dumps(settings))
    loaded = load_checkpoint(made)
    assert loaded.preprocess.size == loaded.model.config.image_size == (32, 32)
    assert any("preprocessor_config.json makes 24x40" in note for note in loaded.notes)
    asked = load_checkpoint(made, LoadOptions(image_size=(24, 40)))
    assert asked.preprocess.size == asked.model.config.image_size == (24, 40)
    assert not any("preprocessor_config" in note for note in asked.notes)
    assert peer("hf_dinov2").error(loaded.model) < TOLERANCE


@pytest.mark.real
@pytest.mark.parametrize(("name", "prefix"), [("hf_dinov2_reg", 5), ("hf_dinov2", 1), ("hf_clip", 1), ("hf_siglip", 0)])
def test_pixels_beside_the_patches_are_left_out_and_other_sizes_have_none(peer, folder, refused, name, prefix):
    def larger(config):
        config.get("vision_config", config)["image_size"] = 35  # patches of 8

    made, fixture = folder(name, larger), peer(name)
    (made / "preprocessor_config.json").unlink()
    model = load_checkpoint(made).model
    images = torch.nn.functional.pad(fixture.images, (0, 3, 0, 3), value=7.0)
    assert model.config.tokens == prefix + 16
    assert (model(images) - fixture.expected).abs().max() < TOLERANCE * fixture.expected.abs().max()
    assert "image height 36 is not divisible by patch size 8: use 32 or 40" in refused(made, image_size=(36, 32))
