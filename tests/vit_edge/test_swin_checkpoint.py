"""Swin checkpoints of timm, Microsoft and Hugging Face, and other image sizes."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from vit_edge.checkpoints import CheckpointError, LoadOptions, load_checkpoint
from vit_edge.runtime.errors import ConfigError

TABLE = "attn.relative_position_bias_table"


@pytest.fixture
def load():
    """Load a checkpoint; gives the model and everything its file tells."""

    def make(path, **options):
        checkpoint = load_checkpoint(path, LoadOptions(**options))
        return checkpoint.model, checkpoint

    return make


@pytest.fixture
def folder(peer, tmp_path):
    """The fixture with other tensors or another config.json."""
    fixture = peer("timm_swin")

    def make(change=lambda tensors: tensors, config=None):
        save_file(change(load_file(fixture.weights)), tmp_path / "model.safetensors")
        if config is not False:
            own = json.loads((fixture.folder / "config.json").read_text())
            (tmp_path / "config.json").write_text(json.dumps(config or own))
            return tmp_path
        (tmp_path / "model.safetensors").rename(tmp_path / "bare.safetensors")
        return tmp_path / "bare.safetensors"

    return make


def test_timms_folder_gives_timms_outputs_with_no_option(peer, load):
    fixture = peer("timm_swin")
    model, checkpoint = load(fixture.folder)
    assert fixture.expected.std() > 0.1
    assert fixture.error(model) < 1e-5
    assert checkpoint.notes == ()
    assert checkpoint.preprocess.size == (64, 64)
    assert checkpoint.preprocess.mean == (0.5, 0.5, 0.5)
    assert not checkpoint.heads_assumed


@pytest.mark.parametrize("harm", ["no mask", "heads swapped", "q and k swapped", "merging order"])
def test_a_wrong_model_does_not(peer, load, harm):
    fixture = peer("timm_swin")
    model, _ = load(fixture.folder)
    attention = model.layers[1].blocks[1].attn
    if harm == "no mask":
        attention.mask = None
    elif harm == "heads swapped":
        attention.relative_position_bias_table.copy_(attention.relative_position_bias_table.flip(1))
    elif harm == "q and k swapped":
        attention.q, attention.k = attention.k, attention.q
    else:
        weight = model.layers[1].downsample.reduction.weight
        weight.copy_(weight.unflatten(1, (2, 2, -1)).transpose(1, 2).flatten(1))
    assert fixture.error(model) > 1e-3


def test_another_image_size_gives_timms_outputs(shared, peer, load):
    with np.load(shared / "data" / "resize_expected.npz") as arrays:
        expected = arrays["timm_swin/96x96"]
    images = np.random.default_rng(0).standard_normal((2, 3, 96, 96)).astype(np.float32)
    model, checkpoint = load(peer("timm_swin").folder, image_size=(96, 96))
    outputs = model(torch.from_numpy(images)).numpy()
    assert expected.std() > 0.1
    assert np.abs(outputs - expected).max() / np.abs(expected).max() < 1e-5
    assert checkpoint.preprocess.size == (96, 96)


def test_tables_are_resampled_where_the_window_no_longer_fits(peer, load):
    model, checkpoint = load(peer("timm_swin").folder, image_size=(24, 56))
    assert [stage.window for stage in model.config.stages] == [(4, 4), (3, 4)]
    assert checkpoint.notes == ("stage 1: bias tables resampled from windows of 4x4 to 3x4",)
    assert model(torch.zeros(2, 3, 24, 56)).shape == (2, 7)


def _old_names(tensors):
    """As Microsoft has them: merging at the end of a stage, `head`, and two kinds of buffers."""
    old = {
        name.replace("layers.1.downsample", "layers.0.downsample").replace("head.fc", "head"): tensor
        for name, tensor in tensors.items()
    }
    for name in [name for name in tensors if name.endswith(TABLE)]:
        old[name.replace("bias_table", "index")] = torch.zeros(16, 16, dtype=torch.int64)
    old["layers.1.blocks.1.attn_mask"] = torch.zeros(4, 16, 16)
    return old


def test_microsofts_file_gives_the_same_outputs(peer, load, tmp_path):
    fixture = peer("timm_swin")
    path = tmp_path / "swin.pth"
    torch.save({"model": _old_names(load_file(fixture.weights))}, path)
    model, checkpoint = load(path, image_size=(64, 64))
    assert fixture.error(model) < 1e-5
    assert checkpoint.preprocess is None
    assert load(path)[1].notes[0].startswith("image size: 32x32 is an assumption")


def test_old_names_in_a_timm_folder_are_read(folder, peer, load):
    assert peer("timm_swin").error(load(folder(_old_names))[0]) < 1e-5


@pytest.mark.parametrize("window", [4, [4, 4], [[4, 4], [4, 4]]])
def test_timms_ways_to_write_the_window_are_read(folder, peer, load, window):
    config = json.loads((peer("timm_swin").folder / "config.json").read_text())
    config["model_args"]["window_size"] = window
    assert peer("timm_swin").error(load(folder(config=config))[0]) < 1e-5


def _hugging_face_names(tensors):
    names = {
        "layers.1.downsample": "layers.0.downsample", "norm1": "layernorm_before", "norm2": "layernorm_after",
        "attn.proj": "attention.output.dense", "attn.relative": "attention.self.relative",
        "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense",
    }  # fmt: skip
    made = {}
    for name, tensor in tensors.items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        if "qkv" in name:
            for layer, part in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                made["swin.encoder." + name.replace("attn.qkv", f"attention.self.{layer}")] = part.contiguous()
            continue
        for ours, theirs in {
            "head.fc": "classifier", "patch_embed.proj": "swin.embeddings.patch_embeddings.projection",
            "patch_embed.norm": "swin.embeddings.norm", "norm.": "swin.layernorm.", "layers": "swin.encoder.layers",
        }.items():  # fmt: skip
            if name.startswith(ours):
                name = name.replace(ours, theirs, 1)
                break
        made[name] = tensor
    return made


HUGGING_FACE = {
    "architectures": ["SwinForImageClassification"], "model_type": "swin", "image_size": 64, "patch_size": 4,
    "embed_dim": 24, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4,
    "id2label": {str(i): f"class {i}" for i in range(7)},
}  # fmt: skip


def test_hugging_faces_folder_gives_the_same_outputs(folder, peer, load):
    model, checkpoint = load(folder(_hugging_face_names, HUGGING_FACE))
    assert peer("timm_swin").error(model) < 1e-5
    assert checkpoint.labels == tuple(f"class {i}" for i in range(7))
    assert checkpoint.format == "huggingface"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["SwinForMaskedImageModeling"]}, "SwinForImageClassification is"),
        ({"hidden_act": "relu"}, "not covered"),
        ({"use_absolute_embeddings": True}, "not covered"),
        ({"num_heads": "many"}, "num_heads"),
        ({"depths": None}, "depths"),
    ],
)
def test_hugging_face_configs_that_are_not_covered_are_refused(folder, load, change, message):
    path = folder(_hugging_face_names, {**HUGGING_FACE, **change})
    with pytest.raises(CheckpointError, match=message):
        load(path)


def test_what_does_not_fit_is_refused_in_one_line(folder, peer, load):
    config = json.loads((peer("timm_swin").folder / "config.json").read_text())
    for changes, message in (
        ({"always_partition": True}, "always_partition"),
        ({"ape": True, "frozen": 1}, "frozen, ape"),
        ({"window_size": "seven"}, "window_size"),
        ({"depths": [1, 3]}, "missing: layers.1.blocks.2"),
        ({"num_heads": [4, 2]}, "wrongly shaped"),
    ):
        path = folder(config={**config, "model_args": {**config["model_args"], **changes}})
        with pytest.raises(CheckpointError, match=message):
            load(path)
    with pytest.raises(CheckpointError, match="leave out --heads"):
        load(peer("timm_swin").folder, heads=3)
    with pytest.raises(ConfigError, match="use 64 or 68"):
        load(peer("timm_swin").folder, image_size=(66, 64))
    with pytest.raises(ConfigError, match="unknown architecture 'swin_huge'"):
        load(peer("timm_swin").folder, arch="swin_huge")


def test_a_backbone_gives_the_pooled_features(folder, peer, load):
    images, whole = peer("timm_swin").images, load(peer("timm_swin").folder)[0]
    path = folder(
        lambda tensors: {name: tensor for name, tensor in tensors.items() if "head" not in name}, config=False
    )
    model = load(path, image_size=(64, 64))[0]
    assert model.config.classes == 0
    assert model(images).shape == (3, 48)
    torch.testing.assert_close(whole.head(model(images)), whole(images))


def test_a_bare_file_under_another_architecture_is_refused(folder, load):
    with pytest.raises(CheckpointError, match=r"is no swin_tiny_patch4_window7_224: width is 96 there, 24 here"):
        load(folder(config=False), arch="swin_tiny_patch4_window7_224")
