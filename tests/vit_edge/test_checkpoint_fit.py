"""Weights, configs and options that do not belong together: what is said, and that nothing is ignored silently."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from vit_edge.checkpoints import CheckpointError, LoadOptions, load_checkpoint


@pytest.fixture
def changed(timm_file, tmp_path):
    """The bare weights with some tensors replaced (None: removed)."""

    def change(tensors):
        state = {**load_file(timm_file), **tensors}
        path = tmp_path / "changed.safetensors"
        save_file({name: tensor for name, tensor in state.items() if tensor is not None}, path)
        return path

    return change


def test_missing_unexpected_and_wrong_tensors_are_listed_together(changed, refused):
    path = changed(
        {
            "blocks.0.norm1.weight": None,
            "blocks.1.norm1.weight": None,
            "extra": torch.zeros(1),
            "blocks.0.attn.proj.weight": torch.zeros(16, 17),
            "blocks.1.attn.proj.weight": torch.zeros(16, 17),
            "cls_token": torch.zeros(1, 1, 16, dtype=torch.int64),
        }
    )
    message = refused(path, heads=2)
    assert "2 missing, 1 unexpected, 3 wrongly shaped tensors" in message
    assert "missing: blocks.{0..1}.norm1.weight\n" in message
    assert "unexpected: extra\n" in message
    assert "blocks.{0..1}.attn.proj.weight: got (16, 17), expected (16, 16)" in message
    assert "cls_token: got int64, expected floating point" in message


def test_a_block_too_many_and_a_gap_are_named(timm_folder, changed, timm_file, refused):
    state = load_file(timm_file)
    second = {name: tensor for name, tensor in state.items() if name.startswith("blocks.1.")}
    third = {name.replace("blocks.1.", "blocks.2."): tensor.clone() for name, tensor in second.items()}
    folder = timm_folder()
    save_file({**state, **third}, folder / "model.safetensors")
    assert "unexpected: blocks.2.attn.proj.bias" in refused(folder)
    gap = changed({**third, **dict.fromkeys(second)})
    assert "missing: blocks.1.attn.qkv.weight" in refused(gap, heads=2)
    far = changed({"blocks.999999999.norm1.weight": torch.zeros(16)})
    assert "depth must be 1..512, got 1000000000" in refused(far, heads=2)
    absurd = changed({f"blocks.{'9' * 5000}.norm1.weight": torch.zeros(16)})
    with pytest.raises(CheckpointError, match="1 unexpected tensors"):
        load_checkpoint(absurd, LoadOptions(heads=2))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(("patch_embed.proj.weight", shape) for shape in [(16, 48), (16,), (), (0, 3, 4, 4), (16, 3, 0, 4), (1,) * 9]),
        *(("pos_embed", shape) for shape in [(16,), (), (1, 0, 16), (1, 18, 16), (1, 1, 17, 16)]),
        *(("head.weight", shape) for shape in [(16,), (), (0, 16), (7, 16, 1)]),
        *(("blocks.0.mlp.fc1.weight", shape) for shape in [(), (24,), (0, 16)]),
        *(("cls_token", shape) for shape in [(), (0,), (2, 1, 16)]),
        *(("blocks.0.attn.qkv.weight", shape) for shape in [(), (48,), (0, 16), (47, 16)]),
    ],
)
def test_tensors_of_any_wrong_shape_are_named(changed, refused, name, shape):
    message = refused(changed({name: torch.zeros(shape)}), heads=2)
    assert name in message or "patch positions are not a square grid" in message


@pytest.mark.parametrize("name", ["patch_embed.proj.weight", "pos_embed", "head.bias", "blocks.0.mlp.fc1.weight"])
def test_missing_tensors_that_tell_sizes_are_named(changed, refused, name):
    assert name in refused(changed({name: None}), heads=2)


def test_heads_have_to_come_from_somewhere(timm_file, refused):
    message = refused(timm_file)
    assert "give --arch NAME, or --heads N and, where no config tells it, --preprocess" in message
    assert "heads must be 1.." in refused(timm_file, heads=0)
    assert "3 heads do not divide width 16" in refused(timm_file, heads=3)


@pytest.mark.real
def test_a_width_of_64s_is_assumed_and_told(shared):
    path = shared / "data" / "vit_tiny_patch16_224.safetensors"
    assumed = load_checkpoint(path)
    assert assumed.heads_assumed
    assert assumed.notes == ("heads: 3 is an assumption (width 192 / 64); --heads N or --arch NAME settles it",)
    named = load_checkpoint(path, LoadOptions(arch="vit_tiny_patch16_224"))
    assert not named.heads_assumed
    assert named.preprocess_origin == "the preset of vit_tiny_patch16_224"


def test_an_unknown_architecture_is_refused_with_near_names(timm_file, refused):
    message = refused(timm_file, arch="vit_tiny_patch16_244")
    assert "did you mean vit_tiny_patch16_224" in message


def test_an_architecture_of_other_weights_is_refused(timm_file, refused):
    message = refused(timm_file, arch="vit_tiny_patch16_224")
    assert "patch_embed.proj.weight: got (16, 3, 4, 4), expected (192, 3, 16, 16)" in message
    assert "missing: blocks.{2..11}.attn.qkv.weight" in message


@pytest.mark.real
@pytest.mark.parametrize("name", ["torchvision_vit", "google_npz", "hf_vit", "timm_vit_gap", "tutorial_myvit"])
def test_an_architecture_that_the_file_contradicts_is_refused(peer, name, refused):
    message = refused(peer(name).folder, arch="vit_large_patch16_224", heads=peer(name).hints.get("num_heads"))
    assert "is no vit_large_patch16_224: width is 1024 there" in message


@pytest.mark.real
def test_the_files_own_architecture_may_be_named(peer):
    fixture = peer("timm_vit")
    loaded = load_checkpoint(fixture.folder, LoadOptions(arch="vit_tiny_patch16_224.augreg"))
    assert fixture.error(loaded.model) < 1e-5  # as in test_checkpoints.py
    assert load_checkpoint(peer("tutorial_myvit").folder, LoadOptions(arch="tutorial_28")).model.config.heads == 2


@pytest.mark.real
@pytest.mark.parametrize("name", ["BeitForImageClassification", "ResNetForImageClassification", "BertModel"])
def test_other_hugging_face_models_are_named(hf_folder, name, refused):
    assert f"{name} is not covered" in refused(hf_folder(architectures=[name], model_type="other"))


@pytest.mark.real
def test_hugging_face_weights_without_their_config_say_what_is_needed(peer, tmp_path, refused):
    fixture = peer("hf_vit")
    shutil.copyfile(fixture.weights, tmp_path / "alone.safetensors")
    assert "no config.json, which tells heads and sizes: give the folder" in refused(tmp_path / "alone.safetensors")


@pytest.mark.real
def test_heads_of_the_user_win_over_hugging_faces_and_are_told(peer):
    loaded = load_checkpoint(peer("hf_vit").folder, LoadOptions(heads=6))
    assert loaded.model.config.heads == 6
    assert loaded.notes == ("heads: 6 as given; the checkpoint's config says 3",)


def test_names_of_no_known_source_are_shown(tmp_path, refused):
    save_file({"conv1.weight": torch.zeros(1)}, tmp_path / "resnet.safetensors")
    assert "names of no known source (conv1.weight, ...); known: vit-edge" in refused(tmp_path / "resnet.safetensors")


def test_a_grid_that_is_not_square_needs_the_size(make_model, as_timm, make_images, tmp_path, refused):
    model = make_model()
    save_file(as_timm(model), tmp_path / "wide.safetensors")
    assert "12 patch positions are not a square grid: give --image-size" in refused(
        tmp_path / "wide.safetensors", heads=2
    )
    loaded = load_checkpoint(tmp_path / "wide.safetensors", LoadOptions(heads=2, image_size=(16, 24)))
    images = make_images(model.config)
    torch.testing.assert_close(loaded.model(images), model(images), rtol=0, atol=0)


@pytest.mark.real
@pytest.mark.parametrize("name", ["google_npz", "torchvision_vit", "tutorial_myvit"])
def test_damaged_tensors_of_the_other_sources_never_give_a_traceback(peer, name, tmp_path, refused):
    fixture = peer(name)
    if name == "google_npz":
        state = {key: torch.from_numpy(array) for key, array in np.load(fixture.weights).items()}
    else:
        state = torch.load(fixture.weights, weights_only=True)
    path = tmp_path / "damaged.safetensors"
    for key in state:
        if any(digit in key for digit in ("_1/", "_2/", "layer_1.", "layer_2.")):
            continue
        for shape in [None, (), (0, 3), (5, 1), (2, 2, 2, 2)]:
            broken = {k: v.contiguous() for k, v in state.items() if k != key or shape is not None}
            save_file(broken if shape is None else {**broken, key: torch.ones(shape)}, path)
            refused(path, heads=fixture.hints["num_heads"])


@pytest.mark.real
def test_bare_clip_weights_need_the_architecture(shared, tmp_path):
    """Activation and epsilon do not show in weights: without a name the outputs were 1.1 % off."""
    weights = tmp_path / "clip.safetensors"
    weights.write_bytes((shared / "peers" / "timm_clip" / "model.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match="give --arch"):
        load_checkpoint(weights, LoadOptions(heads=3))


def test_an_architecture_of_another_kind_is_refused(timm_file, refused):
    for heads in (None, 2):
        message = refused(timm_file, arch="swin_tiny_patch4_window7_224", heads=heads)
        assert "swin_tiny_patch4_window7_224 is a Swin, the weights are of a ViT" in message


@pytest.mark.parametrize(
    "arch", ["vit_base_patch16_clip_224", "vit_b_16", "eva02_tiny_patch14_224", "deit3_small_patch16_224"]
)
def test_a_wrong_architecture_is_short_and_asked_about(timm_file, refused, arch):
    message = refused(timm_file, arch=arch)
    assert arch in message
    assert len(message) < 900
