"""A config.json that is wrong, incomplete or hostile: one line, never a traceback, never a huge allocation."""

import pytest

from vit_edge.checkpoints import load_checkpoint

TIMM = ["architecture", "num_classes", "model_args", "pretrained_cfg"]
ARGS = ["img_size", "patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio", "in_chans", "qkv_bias", "init_values"]
ARGS += ["fc_norm", "global_pool", "class_token", "no_embed_class", "distilled", "unknown"]
CFG = ["input_size", "mean", "std", "interpolation", "crop_pct", "crop_mode", "label_names", "label_descriptions"]
NASTY = [None, True, "x", "", -1, 0, 2.5, 10**30, 10**9, 1e300, [], [1], [0, 0], [1, 2, 3], ["a", "b"], {}, {"a": []}]


@pytest.mark.parametrize("config", ["", "{", "[]", "null", "[" * 100_000, '{"a": NaN}', '{"a": 1, "a": 2}', "\udcff"])
def test_a_config_that_is_no_json_object_is_refused(timm_folder, refused, config):
    folder = timm_folder()
    (folder / "config.json").write_bytes(config.encode("utf-8", "surrogateescape"))
    assert "config.json" in refused(folder)


@pytest.mark.parametrize("place", TIMM + ARGS)
def test_no_value_in_timms_config_gives_a_traceback(timm_folder, timm_config, loaded_or_refused, place):
    inside = timm_config if place in timm_config else timm_config["model_args"]
    for value in NASTY:
        inside[place] = value
        loaded = loaded_or_refused(timm_folder(timm_config), value)
        assert loaded is None or loaded.model.config.width == 16


@pytest.mark.parametrize("place", CFG)
def test_no_value_in_pretrained_cfg_gives_a_traceback(timm_folder, timm_config, loaded_or_refused, place):
    for value in NASTY:
        timm_config["pretrained_cfg"][place] = value
        loaded = loaded_or_refused(timm_folder(timm_config), value)
        assert loaded is None or loaded.preprocess.size == (16, 16)


FIELDS = ["architectures", "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"]
FIELDS += ["image_size", "patch_size", "num_channels", "hidden_act", "layer_norm_eps", "qkv_bias", "id2label"]


@pytest.mark.real
@pytest.mark.parametrize("field", FIELDS)
def test_no_value_in_hugging_faces_config_gives_a_traceback(hf_folder, loaded_or_refused, field):
    for value in NASTY:
        loaded = loaded_or_refused(hf_folder(**{field: value}), value)
        assert loaded is None or loaded.model.config.width == 48


@pytest.mark.real
def test_wrong_kinds_in_hugging_faces_config_are_named(hf_folder, refused):
    assert "config.json: hidden_size is '48', expected a whole number" in refused(hf_folder(hidden_size="48"))
    assert "config.json: lacks hidden_size" in refused(hf_folder(hidden_size=None))
    assert "id2label: lacks 0" in refused(hf_folder(id2label={"LABEL": "x"}))
    assert "hidden_act 'swish' is not covered" in refused(hf_folder(hidden_act="swish"))
    assert "depth must be 1..512" in refused(hf_folder(num_hidden_layers=10**9))


def test_arguments_we_do_not_know_are_refused(timm_folder, timm_config, refused):
    timm_config["model_args"] |= {"no_such_layer": 4, "another": "silu", "drop_rate": 0.1}
    assert "model_args: not covered: another, no_such_layer" in refused(timm_folder(timm_config))


def test_a_pooling_we_do_not_know_is_refused(timm_folder, timm_config, refused):
    timm_config["model_args"]["global_pool"] = "avgmax"
    assert "global_pool 'avgmax' is not covered" in refused(timm_folder(timm_config))


def test_labels_of_timm_are_used_where_they_fit_and_told_where_not(timm_folder, timm_config):
    names = [f"n{i}" for i in range(7)]
    timm_config["pretrained_cfg"] |= {"label_names": names, "label_descriptions": {"n0": "tench"}}
    assert load_checkpoint(timm_folder(timm_config)).labels == ("tench", *names[1:])
    short = load_checkpoint(timm_folder({**timm_config, "label_names": names[:5]}))
    assert short.labels == ()
    assert any("5 names for 7 classes" in note for note in short.notes)
