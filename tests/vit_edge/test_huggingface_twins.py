"""transformers and this project compute the same for the same weights: ten sizes a family, saved and loaded again.

The models are tiny and random; weights are scaled so that the outputs vary, which is asserted. docs/models.md has the
worst differences; `pytest -o junit_family=xunit1 --junitxml FILE` writes each of them as the property `error`.
"""

import random
from pathlib import Path

import pytest
import torch

from vit_edge.checkpoints import LoadOptions, huggingface, load_checkpoint, swin_huggingface
from vit_edge.checkpoints.fields import Fields
from vit_edge.checkpoints.reading import Source

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.slow
transformers.logging.set_verbosity_error()  # it remarks on vocabularies as small as those here
transformers.logging.disable_progress_bar()

TOLERANCE = 1e-5  # relative to the largest magnitude
CLASSES = 5

# (height, width), (patch height, patch width), channels, width, depth, heads, hidden width of the MLP; one has pixels
# left over beside its patches, as SigLIP's 384 by patches of 14
SIZES = [
    ((16, 16), (4, 4), 3, 16, 1, 1, 24),
    ((16, 16), (4, 4), 3, 16, 2, 4, 64),
    ((24, 16), (8, 4), 3, 24, 2, 3, 40),
    ((12, 20), (4, 4), 1, 32, 3, 2, 32),
    ((32, 32), (8, 8), 4, 48, 2, 6, 100),
    ((14, 28), (7, 14), 3, 36, 2, 3, 48),
    ((23, 22), (5, 5), 2, 40, 4, 5, 80),
    ((16, 48), (16, 16), 3, 64, 1, 16, 128),
    ((18, 12), (3, 2), 3, 16, 2, 2, 17),
    ((8, 8), (8, 8), 3, 56, 5, 7, 20),
]
CASES = pytest.mark.parametrize("case", range(len(SIZES)))


def common(case):
    image, patch, channels, width, depth, heads, _ = SIZES[case]
    names = ("image_size", "patch_size", "num_channels", "hidden_size", "num_hidden_layers", "num_attention_heads")
    return dict(zip(names, (list(image), list(patch), channels, width, depth, heads), strict=True))


def square(case):
    """CLIP and SigLIP have square images and patches alone."""
    sizes = common(case)
    patch = sizes["patch_size"][1]
    return {**sizes, "patch_size": patch, "image_size": patch * (case % 3 + 1) + case % 2}


def plain(config_class):
    def make(case):
        varied = {"qkv_bias": case % 4 != 3, "hidden_act": ("gelu", "relu", "gelu_new")[case % 3]}
        return config_class(**common(case), intermediate_size=SIZES[case][-1], num_labels=CLASSES, **varied)

    return make


def dinov2(config_class):
    """Its positions have to be a square grid: transformers interpolates them wherever an image is not square."""

    def make(case):
        sizes = common(case)
        rows = sizes["image_size"][0] // sizes["patch_size"][0]
        sizes["image_size"] = [rows * side + case % 2 for side in sizes["patch_size"]]
        varied = {"mlp_ratio": case % 4 + 1, "qkv_bias": case % 4 != 3, "use_swiglu_ffn": case % 2 == 1}
        if config_class is transformers.Dinov2WithRegistersConfig:
            varied["num_register_tokens"] = case % 5
        return config_class(**sizes, num_labels=CLASSES, **varied)

    return make


def dinov3(case):
    sizes = {**common(case), "hidden_size": 4 * (case + 1) * SIZES[case][5]}  # a rotation turns quarters of a head
    biases = {f"{name}_bias": (case >> bit) % 2 == 0 for bit, name in enumerate(("value", "key", "query", "proj"))}
    gated = case % 2 == 1
    return transformers.DINOv3ViTConfig(
        **sizes,
        **biases,
        intermediate_size=SIZES[case][-1],
        use_gated_mlp=gated,
        hidden_act="silu" if gated else "gelu",
        mlp_bias=case % 3 != 2,
        num_register_tokens=case % 5,
        rope_theta=100.0 * (case % 3 + 1),
    )


def tower(config_class):
    def make(case):
        return config_class(**square(case), intermediate_size=SIZES[case][-1])

    return make


def both_towers(config_class):
    text = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    text |= {"vocab_size": 16, "max_position_embeddings": 4, "bos_token_id": 1, "eos_token_id": 2}

    def make(case):
        activation = ("quick_gelu", "gelu", "gelu_pytorch_tanh")[case % 3]
        vision = {**square(case), "intermediate_size": SIZES[case][-1], "hidden_act": activation}
        return config_class(vision_config=vision, text_config=text, num_labels=CLASSES)

    return make


def swin(case):
    """Maps that windows do not tile among them."""
    generator = random.Random(case)
    stages = generator.choice((1, 2, 3))
    window = generator.choice((2, 3, 4, 5))
    least = (window + 1) * 2 ** (stages - 1)  # transformers fails where a window is larger than the map
    return transformers.SwinConfig(
        image_size=[4 * generator.randint(least, least + 9), 4 * generator.randint(least, least + 9)],
        embed_dim=12,
        depths=[generator.choice((1, 2, 3)) for _ in range(stages)],
        num_heads=[generator.choice((1, 2, 3, 4)) for _ in range(stages)],
        window_size=window,
        mlp_ratio=generator.choice((2, 4.0)),
        qkv_bias=generator.random() < 0.7,
        layer_norm_eps=generator.choice((1e-5, 1e-3)),
        num_channels=generator.choice((1, 3)),
        num_labels=CLASSES,
    )


def logits(model, images):
    return model(images).logits


def class_token(model, images):
    return model(images).last_hidden_state[:, 0]


def pooled(model, images):
    return getattr(model, "vision_model", model)(images).pooler_output


FAMILIES = {  # the class of transformers -> its configuration for a case, and its output
    "ViTForImageClassification": (plain(transformers.ViTConfig), logits),
    "ViTModel": (plain(transformers.ViTConfig), class_token),
    "DeiTForImageClassification": (plain(transformers.DeiTConfig), logits),
    "DeiTForImageClassificationWithTeacher": (plain(transformers.DeiTConfig), logits),
    "DeiTModel": (plain(transformers.DeiTConfig), class_token),
    "Dinov2ForImageClassification": (dinov2(transformers.Dinov2Config), logits),
    "Dinov2Model": (dinov2(transformers.Dinov2Config), pooled),
    "Dinov2WithRegistersForImageClassification": (dinov2(transformers.Dinov2WithRegistersConfig), logits),
    "Dinov2WithRegistersModel": (dinov2(transformers.Dinov2WithRegistersConfig), pooled),
    "DINOv3ViTModel": (dinov3, pooled),
    "CLIPForImageClassification": (both_towers(transformers.CLIPConfig), logits),
    "CLIPModel": (both_towers(transformers.CLIPConfig), pooled),
    "CLIPVisionModel": (tower(transformers.CLIPVisionConfig), pooled),
    "SiglipForImageClassification": (both_towers(transformers.SiglipConfig), logits),
    "SiglipModel": (both_towers(transformers.SiglipConfig), pooled),
    "SiglipVisionModel": (tower(transformers.SiglipVisionConfig), pooled),
    "SwinForImageClassification": (swin, logits),
}
SWIN = "SwinForImageClassification"


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            around_one = name.endswith("lambda1") or ("norm" in name and name.endswith("weight"))
            scale = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 and parameter.numel() else 0.3
            parameter.copy_(1 + 0.3 * noise if around_one else 1.5 * scale * noise)
    return model.eval().requires_grad_(False)


@pytest.fixture
def make_twin(tmp_path):
    """A saved model of transformers, images that fit it, and what it computes for them."""

    def make(family, case, size=None, *, in_memory=False):
        config, output = FAMILIES[family]
        theirs = randomise(getattr(transformers, family)(config(case)), seed=case)
        theirs.save_pretrained(tmp_path)
        if in_memory:
            (tmp_path / "model.safetensors").unlink()
            torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
        vision = getattr(theirs.config, "vision_config", theirs.config)
        size = size or vision.image_size
        height, width = (size, size) if isinstance(size, int) else size
        generator = torch.Generator().manual_seed(100 + case)
        images = torch.randn(3, vision.num_channels, height, width, generator=generator)
        return tmp_path, images, output(theirs, images)

    return make


def error(model, images, expected):
    got = model(images)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    return float((got - expected).abs().max() / expected.abs().max())


@CASES
@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_weights_compute_the_same(make_twin, record_property, family, case):
    folder, images, expected = make_twin(family, case)
    loaded = load_checkpoint(folder)
    assert loaded.format == "huggingface"
    assert loaded.output == ("logits" if FAMILIES[family][1] is logits else "features")
    assert expected.std() > 0.1
    assert expected.std(dim=0).max() > 0.01  # the images matter
    found = error(loaded.model, images, expected)
    record_property("error", found)
    assert found < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_a_state_dict_beside_the_config_has_the_names_in_memory(make_twin, family):
    folder, images, expected = make_twin(family, 1, in_memory=True)
    assert error(load_checkpoint(folder).model, images, expected) < TOLERANCE


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != SWIN])
def test_canary_another_number_of_heads_misses(make_twin, family):
    folder, images, expected = make_twin(family, 1)
    model = load_checkpoint(folder, LoadOptions(heads=2)).model
    assert error(model, images, expected) > 100 * TOLERANCE


@CASES
def test_canary_a_swin_with_queries_for_keys_misses(make_twin, case):
    """Its heads show in the weights and cannot be given."""
    folder, images, expected = make_twin(SWIN, case)
    model = load_checkpoint(folder).model
    attention = model.layers[0].blocks[0].attn
    attention.q, attention.k = attention.k, attention.q
    assert error(model, images, expected) > 100 * TOLERANCE


@pytest.mark.parametrize("size", [(32, 32), (8, 24), (20, 12)])
@pytest.mark.parametrize("family", ["Dinov2WithRegistersForImageClassification", "DINOv3ViTModel"])
def test_at_other_sizes_positions_are_those_of_transformers(make_twin, family, size):
    """The other families' are not: transformers interpolates them without antialias, this project as timm does."""
    folder, images, expected = make_twin(family, 1, size)
    loaded = load_checkpoint(folder, LoadOptions(image_size=size))
    assert error(loaded.model, images, expected) < TOLERANCE


@pytest.mark.parametrize("family", ["CLIP", "Siglip"])
def test_fields_that_a_vision_config_leaves_out_are_those_of_transformers(family):
    """google/siglip-base-patch16-224 has nothing but its model_type there."""
    theirs = getattr(transformers, f"{family}VisionConfig")()
    fields = {"architectures": [f"{family}Model"], "vision_config": {"model_type": theirs.model_type}}
    source = Source(Path("model.safetensors"), {}, "", config=Fields("config.json", fields))
    ours = huggingface.interpret(source, LoadOptions()).config
    activations = {"quick_gelu": "quick_gelu", "gelu_pytorch_tanh": "gelu_tanh"}
    assert ours.image_size == (theirs.image_size,) * 2
    assert ours.patch_size == (theirs.patch_size,) * 2
    assert (ours.channels, ours.width) == (theirs.num_channels, theirs.hidden_size)
    assert ours.mlp_width == theirs.intermediate_size
    assert (ours.depth, ours.heads) == (theirs.num_hidden_layers, theirs.num_attention_heads)
    assert (ours.norm_eps, ours.activation) == (theirs.layer_norm_eps, activations[theirs.hidden_act])


def test_every_architecture_that_is_read_has_a_twin_here():
    assert {*huggingface.ARCHITECTURES, swin_huggingface.ARCHITECTURE} == set(FAMILIES)
