"""Each source's checkpoint gives the logits of the library it comes from; formats are told from content."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from vit_edge.checkpoints import LoadOptions, load_checkpoint

FORMATS = {
    "timm_vit": "timm",
    "timm_vit_gap": "timm",
    "timm_vit_mae_ft": "timm",
    "timm_deit_distilled": "timm",
    "timm_deit3": "timm",
    "hf_vit": "huggingface",
    "hf_deit_distilled": "huggingface",
    "torchvision_vit": "torchvision",
    "google_npz": "google",
    "tutorial_myvit": "tutorial",
}
PEERS = pytest.mark.parametrize("name", FORMATS)
TOLERANCE = 1e-5  # the issue's, relative to the largest magnitude; measured: 3e-7 to 9e-7


def load(peer, **options):
    return load_checkpoint(peer.folder, LoadOptions(**{"heads": peer.hints.get("num_heads"), **options}))


@pytest.mark.real
@PEERS
def test_logits_are_the_peers(peer, name):
    fixture = peer(name)
    loaded = load(fixture)
    assert loaded.format == FORMATS[name]
    assert loaded.output == ("probabilities" if fixture.probabilities else "logits")
    assert fixture.expected.std() > 0.1
    assert fixture.expected.std(dim=0).max() > 1e-3  # the images matter
    assert fixture.error(loaded.model) < TOLERANCE


@pytest.mark.real
@PEERS
def test_canary_a_wrong_number_of_heads_misses(peer, name, refused):
    fixture = peer(name)
    if name in ("google_npz", "tutorial_myvit"):  # their weights show the number
        number = fixture.hints["num_heads"]
        assert f"has weights of {number} heads, got --heads 4" in refused(fixture.folder, heads=4)
        return
    for heads in (1, 2, 4, 6):
        assert fixture.error(load(fixture, heads=heads).model) > 10 * TOLERANCE


@pytest.mark.real
@PEERS
@pytest.mark.parametrize("part", ["patch_embed.proj.weight", "blocks.0.attn.k.weight", "head.weight"])
def test_canary_one_changed_weight_misses(peer, name, part):
    fixture = peer(name)
    model = load(fixture).model
    model.get_parameter(part).flatten()[7] += 0.3
    assert fixture.error(model) > TOLERANCE


@pytest.mark.real
@PEERS
def test_canary_exchanged_queries_and_keys_miss(peer, name):
    fixture = peer(name)
    model = load(fixture).model
    attention = model.blocks[0].attn
    attention.q, attention.v = attention.v, attention.q
    assert fixture.error(model) > 10 * TOLERANCE


@pytest.mark.real
@pytest.mark.parametrize("suffix", ["model.onnx", "photo.jpg", "weights.npz", "model.safetensors", "model.pth", "none"])
@pytest.mark.parametrize("name", ["timm_vit", "timm_deit_distilled", "torchvision_vit", "google_npz", "tutorial_myvit"])
def test_name_of_the_file_means_nothing(peer, name, suffix, tmp_path):
    fixture = peer(name)
    shutil.copyfile(fixture.weights, tmp_path / suffix)
    heads = fixture.hints.get("num_heads", 3)
    assert fixture.error(load_checkpoint(tmp_path / suffix, LoadOptions(heads=heads)).model) < TOLERANCE


@pytest.mark.real
@PEERS
def test_heads_in_config_are_no_assumption(peer, name):
    loaded = load(peer(name))
    assert loaded.model.config.heads == (2 if name == "tutorial_myvit" else 3)
    assert not loaded.heads_assumed


@pytest.mark.real
def test_preprocessing_and_labels_come_from_the_configs(peer):
    timm, hf, bare = load(peer("timm_vit")), load(peer("hf_vit")), load(peer("torchvision_vit"))
    assert timm.preprocess_origin == "the checkpoint's pretrained_cfg"
    assert hf.preprocess_origin == "the checkpoint's preprocessor_config.json"
    assert timm.preprocess.mean == hf.preprocess.mean == (0.5, 0.5, 0.5)
    assert hf.labels == tuple(f"class_{i}" for i in range(7))
    assert bare.preprocess is None
    assert bare.labels == ()


@pytest.mark.real
@pytest.mark.parametrize("name", ["timm_vit_gap", "hf_vit"])
def test_weight_file_inside_a_folder_uses_the_configs_beside_it(peer, name):
    fixture = peer(name)
    loaded = load_checkpoint(fixture.folder / "model.safetensors")
    assert fixture.error(loaded.model) < TOLERANCE
    assert loaded.preprocess is not None


@pytest.mark.real
def test_links_are_followed_as_the_hub_cache_has_them(peer, tmp_path):
    fixture = peer("hf_vit")
    for file in fixture.folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    assert fixture.error(load_checkpoint(tmp_path).model) < TOLERANCE


@pytest.mark.real
def test_weights_in_several_files(peer, tmp_path):
    fixture = peer("hf_vit")
    shutil.copy(fixture.folder / "config.json", tmp_path)
    tensors = load_file(fixture.weights)
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[:20], "model-00002-of-00002.safetensors": names[20:]}
    for file, part in parts.items():
        save_file({name: tensors[name] for name in part}, tmp_path / file)
    weight_map = {name: file for file, part in parts.items() for name in part}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert fixture.error(load_checkpoint(tmp_path).model) < TOLERANCE


@pytest.mark.real
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_read_as_float32(peer, dtype, tmp_path):
    fixture = peer("timm_vit")
    path = tmp_path / "half.safetensors"
    save_file({name: tensor.to(dtype) for name, tensor in load_file(fixture.weights).items()}, path)
    model = load_checkpoint(path, LoadOptions(heads=3)).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    # rounding of weights to 8 (bfloat16) or 11 bits, through three blocks; measured 1e-2, 7e-4
    bound = {torch.float16: 5e-3, torch.bfloat16: 5e-2, torch.float64: TOLERANCE}[dtype]
    assert fixture.error(model) < bound


def wrapped(state):
    prefixed = {f"module.{name}": tensor for name, tensor in state.items()}
    return {
        "bare": state,
        "model": {"model": state, "epoch": 3},
        "state_dict": {"state_dict": state, "optimizer": {"lr": 0.1}},
        "twice": {"model": {"state_dict": state}},
        "a name as model": {"model": "vit_tiny", "state_dict": state},
        "DataParallel": prefixed,
        "compiled DataParallel": {"state_dict": {f"_orig_mod.{name}": tensor for name, tensor in prefixed.items()}},
        "trainer": {f"model.{name}": tensor for name, tensor in state.items()},
        "DataParallel of a trainer": {f"module.model.{name}": tensor for name, tensor in state.items()},
    }


@pytest.mark.parametrize("case", wrapped({}))
@pytest.mark.parametrize("legacy", [False, True])
def test_what_trainers_wrap_around_is_taken_off(case, legacy, timm_file, tmp_path, make_images):
    expected = load_checkpoint(timm_file, LoadOptions(heads=2)).model
    path = tmp_path / "wrapped.pth"
    torch.save(wrapped(load_file(timm_file))[case], path, _use_new_zipfile_serialization=not legacy)
    images = make_images(expected.config)
    got = load_checkpoint(path, LoadOptions(heads=2)).model(images)
    assert got.std() > 0.1
    torch.testing.assert_close(got, expected(images), rtol=0, atol=0)
