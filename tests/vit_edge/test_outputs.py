"""Features and tokens: the same weights without the classifier."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from vit_edge.checkpoints import load_checkpoint, save_checkpoint
from vit_edge.config import ViTConfig
from vit_edge.export import ExportOptions, export
from vit_edge.model import ViT
from vit_edge.outputs import giving
from vit_edge.preprocessing import named
from vit_edge.runtime import ConfigError, Predictor
from vit_edge.swin import Swin
from vit_edge.swin_config import SwinConfig

BASE = ViTConfig(
    image_size=(32, 24), patch_size=(8, 8), width=16, depth=2, heads=2, mlp_width=32, classes=5, registers=2
)
VARIANTS = {
    "class": BASE,
    "mean": dataclasses.replace(BASE, pool="mean"),
    "mean with its norm behind": dataclasses.replace(BASE, pool="mean", final_norm="pooled"),
    "class and mean": dataclasses.replace(BASE, pool="class_and_mean"),
    "attention": dataclasses.replace(BASE, pool="map", class_token=False, registers=0),
    "distilled": dataclasses.replace(BASE, distillation_token=True, distillation_head=True, registers=0),
}


def random_model(config: ViTConfig) -> ViT:
    torch.manual_seed(0)
    model = ViT(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(3, 3, 32, 24, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_outputs_are_the_models_own_intermediates(config: ViTConfig, images: torch.Tensor) -> None:
    model = random_model(config)
    features, tokens = giving(model, "features")(images), giving(model, "tokens")(images)
    assert float(features.std(dim=0).min()) > 1e-4
    torch.testing.assert_close(features, model.features(images), rtol=0, atol=0)
    torch.testing.assert_close(tokens, model.tokens(images), rtol=0, atol=0)
    assert tokens.shape == (3, config.tokens, config.width)
    assert features.shape == (3, config.features)
    if not config.distillation_head:
        torch.testing.assert_close(model.head(features), model(images), rtol=0, atol=0)


def test_class_scores_are_the_same_model() -> None:
    model = random_model(BASE)
    assert giving(model, "logits") is model
    assert giving(model, "probabilities") is model


def test_swin_has_features_and_no_tokens() -> None:
    config = SwinConfig(
        image_size=(32, 32), width=8, depths=(1, 1), heads=(1, 2), window_size=((4, 4), (4, 4)), classes=5
    )
    torch.manual_seed(0)
    model = Swin(config).eval()
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(model.head(giving(model, "features")(images)), model(images), rtol=0, atol=0)
    with pytest.raises(ConfigError, match="no sequence of tokens"):
        giving(model, "tokens")


def test_a_backbone_gives_no_class_scores() -> None:
    with pytest.raises(ConfigError, match="no classifier, so it gives no logits"):
        giving(random_model(dataclasses.replace(BASE, classes=0)), "logits")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["features", "tokens"])
def test_exported_outputs_are_those_of_the_model(kind: str, images: torch.Tensor, tmp_path: Path) -> None:
    model = random_model(BASE)
    save_checkpoint(
        model, tmp_path / "m.safetensors", name="m", preprocess=named("half", (32, 24)), labels=list("abcde")
    )
    options = ExportOptions(output=kind)  # type: ignore[arg-type]
    report = export(load_checkpoint(tmp_path / "m.safetensors"), tmp_path / "m.onnx", options)
    assert report.manifest.output.kind == kind
    assert report.manifest.labels == ()
    expected = (model.features(images) if kind == "features" else model.tokens(images).flatten(1)).numpy()
    outputs = Predictor(tmp_path / "m.onnx").logits(images.numpy())
    # 2e-5 of the largest: the gate's own tolerance (export/parity.py)
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


@pytest.mark.slow
def test_a_checkpoint_without_classifier_exports_features(tmp_path: Path) -> None:
    model = random_model(dataclasses.replace(BASE, classes=0))
    save_checkpoint(model, tmp_path / "m.safetensors", name="m", preprocess=named("half", (32, 24)))
    report = export(load_checkpoint(tmp_path / "m.safetensors"), tmp_path / "m.onnx")
    assert (report.manifest.output.kind, report.manifest.output.classes) == ("features", BASE.width)
