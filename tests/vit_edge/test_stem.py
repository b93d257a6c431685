"""The convolutional stem of hybrid ViTs, alone and in front of a ViT."""

import dataclasses

import onnxruntime as ort
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.reading import Source, read
from vit_edge.checkpoints.rules import Copy, Rule, Split, assemble
from vit_edge.checkpoints.stem import stem_channels, stem_config, stem_rules
from vit_edge.config import ViTConfig
from vit_edge.export.model_file import save
from vit_edge.export.traceable import traceable
from vit_edge.export.tracing import trace
from vit_edge.model import ViT
from vit_edge.runtime.errors import ConfigError
from vit_edge.stem import ResNetStem, StemConfig, pad_same, standardise

SMALL = StemConfig(width=32, depths=(1, 2), widths=(128, 256))


class Hybrid(nn.Module):
    """A ViT whose patches are cut from the stem's feature map; its own `patch_embed` takes that for the image."""

    def __init__(self, stem, vit):
        super().__init__()
        self.stem, self.vit = stem, vit

    def forward(self, images):
        return self.vit(self.stem(images))


@pytest.fixture
def hybrid(peer):
    """timm's hybrid fixture, composed of the stem and the reference ViT."""
    fixture = peer("timm_hybrid")
    source = read(fixture.folder)
    config = stem_config(source)
    vit = ViT(
        ViTConfig(
            image_size=config.map_size((64, 64)), patch_size=(4, 4), channels=config.channels, width=48, depth=3,
            heads=3, mlp_width=192, classes=7,
        )
    )  # fmt: skip
    model = Hybrid(ResNetStem(config, stem_channels(source)), vit)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    rules = stem_rules(source, config) + [
        Rule((name,), (f"vit.{name}",), Copy()) for name in source.tensors if "qkv" not in name
    ]
    for name in source.tensors:
        if "qkv" in name:
            rules.append(Rule((name,), tuple(f"vit.{name.replace('qkv', layer)}" for layer in "qkv"), Split()))
    model.load_state_dict(assemble(rules, source.tensors, shapes))
    return fixture, model.eval().requires_grad_(False)


def test_its_sizes_are_read_from_the_weights(hybrid):
    assert hybrid[1].stem.config == StemConfig(width=32, depths=(1,), widths=(128,))


def test_a_hybrid_computes_what_timm_computes(hybrid):
    fixture, model = hybrid
    assert fixture.expected.std() > 0.1
    assert fixture.error(model) < 1e-5


@pytest.mark.parametrize("harm", ["raw weights", "no pooling", "no shortcut norm"])
def test_a_wrong_stem_does_not(hybrid, harm):
    fixture, model = hybrid
    if harm == "raw weights":
        raw = read(fixture.folder).tensors["patch_embed.backbone.stages.0.blocks.0.conv1.weight"]
        model.stem.stages[0][0].reduce.conv.weight.copy_(raw)
        model.stem.stages[0][0].reduce.conv.weight.add_(0.1)
    elif harm == "no pooling":
        model.stem.root.conv.stride = (4, 4)
        with pytest.raises((RuntimeError, AssertionError)):
            fixture.error(model)
        return
    else:
        model.stem.stages[0][0].shortcut.norm = nn.Identity()
    assert fixture.error(model) > 1e-3


def test_standardised_kernels_have_mean_0_and_variance_1():
    weight = torch.randn(8, 4, 3, 3, generator=torch.Generator().manual_seed(0)) * 0.02 + 0.3
    made = standardise(weight)
    assert made.dtype == torch.float32
    torch.testing.assert_close(made.mean(dim=(1, 2, 3)), torch.zeros(8), atol=1e-6, rtol=0)
    torch.testing.assert_close(made.var(dim=(1, 2, 3), correction=0), torch.ones(8), atol=1e-4, rtol=0)
    by_batch_norm = F.batch_norm(weight.reshape(1, 8, -1), None, None, training=True, eps=1e-8).reshape(8, 4, 3, 3)
    torch.testing.assert_close(made, by_batch_norm, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", [1, 3, 7])
@pytest.mark.parametrize("side", [1, 2, 5, 8, 15, 16])
def test_same_padding_gives_the_side_over_the_stride_rounded_up(side, kernel):
    for stride in (1, 2):
        x = torch.ones(1, 1, side, side + 1)
        padded = pad_same(x, kernel, stride)
        assert padded.sum() == x.sum()
        out = F.conv2d(padded, torch.ones(1, 1, kernel, kernel), stride=stride)
        assert out.shape[2:] == (-(-side // stride), -(-(side + 1) // stride))
    row = pad_same(torch.ones(1, 1, 4, 4), 3, 2)[0, 0, 0]
    assert row.tolist() == [1, 1, 1, 1, 0]  # the odd one behind, unlike padding=1


@pytest.mark.parametrize("image_size", [(64, 64), (61, 40), (33, 95)])
@pytest.mark.parametrize("config", [SMALL, StemConfig(depths=(), widths=()), StemConfig(width=64, depths=(1,) * 4, widths=(128,) * 4)])  # fmt: skip  # noqa: E501
def test_the_map_has_the_size_that_the_configuration_says(randomise, config, image_size):
    stem = randomise(ResNetStem(config))
    images = torch.randn(2, 3, *image_size, generator=torch.Generator().manual_seed(0))
    features = stem(images)
    assert features.shape == (2, config.channels, *config.map_size(image_size))
    assert features.std() > 0.05


@pytest.mark.parametrize(
    "fields",
    [{"widths": (100,), "depths": (1,)}, {"width": 48}, {"depths": (1, 2)}, {"depths": (0, 1, 1)}, {"norm_eps": 0.0}],
)
def test_impossible_stems_are_refused(fields):
    with pytest.raises(ConfigError):
        StemConfig(**fields)


def test_the_json_form_round_trips():
    fields = SMALL.to_dict()
    assert fields["widths"] == [128, 256]
    assert StemConfig.from_dict(fields) == SMALL
    with pytest.raises(ConfigError, match="unknown"):
        StemConfig.from_dict({**fields, "groups": 32})


def _timm_names(stem):
    """The stem's weights as timm calls them."""
    numbers = {"reduce": "1", "mix": "2", "expand": "3"}
    named = {}
    for name, tensor in stem.state_dict().items():
        *path, layer, part = name.split(".")
        if path == ["root"]:
            named[f"patch_embed.backbone.{'stem.' if stem.config.depths else ''}{layer}.{part}"] = tensor
            continue
        _, stage, block, unit = path
        theirs = f"downsample.{layer}" if unit == "shortcut" else layer + numbers[unit]
        named[f"patch_embed.backbone.stages.{stage}.blocks.{block}.{theirs}.{part}"] = tensor
    return named


@pytest.mark.parametrize("config", [SMALL, StemConfig(depths=(), widths=())])
def test_both_of_timms_names_for_the_front_are_read(randomise, config, tmp_path):
    stem = randomise(ResNetStem(config, channels=1))
    source = Source(path=tmp_path, tensors=_timm_names(stem), sha256="")
    assert stem_config(source) == config
    assert stem_channels(source) == 1
    shapes = {f"stem.{name}": tuple(tensor.shape) for name, tensor in stem.state_dict().items()}
    state = assemble(stem_rules(source, config), source.tensors, shapes)
    for name, tensor in stem.state_dict().items():
        expected = standardise(tensor) if name.endswith("conv.weight") else tensor
        torch.testing.assert_close(state[f"stem.{name}"], expected)


def test_a_checkpoint_without_a_stem_has_none_and_other_stems_are_refused(tmp_path):
    plain = Source(path=tmp_path, tensors={"patch_embed.proj.weight": torch.zeros(8, 3, 4, 4)}, sha256="")
    assert stem_config(plain) is None
    other = dataclasses.replace(plain, tensors={"patch_embed.backbone.conv1.0.weight": torch.zeros(8, 3, 3, 3)})
    with pytest.raises(CheckpointError, match=r"ResNetV2 hybrids"):
        stem_config(other)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [23, 18])
def test_the_exported_graph_takes_every_batch_size(randomise, opset, tmp_path):
    stem = randomise(ResNetStem(StemConfig(width=32, depths=(1,), widths=(128,))))
    model = nn.Sequential(stem, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    graph = trace(traceable(model, opset=opset), (3, 21, 32), opset=opset)
    session = ort.InferenceSession(save(graph, tmp_path / "stem.onnx"), providers=["CPUExecutionProvider"])
    for batch in (1, 2, 3):
        images = torch.randn(batch, 3, 21, 32, generator=torch.Generator().manual_seed(batch))
        expected = model(images)
        assert expected.std() > 0.05
        (outputs,) = session.run(None, {"images": images.numpy()})
        torch.testing.assert_close(torch.from_numpy(outputs), expected, rtol=1e-5, atol=1e-5)
