"""The number of heads: the right one is the most confident on images the weights were made for."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from vit_edge.checkpoints import Checkpoint, LoadOptions, load_checkpoint
from vit_edge.export import heads
from vit_edge.export.errors import ExportError
from vit_edge.export.heads import confidence_by_heads, settle_heads
from vit_edge.export.parity import Reference
from vit_edge.model import ViT
from vit_edge.runtime.images import decode, find_images
from vit_edge.runtime.preprocess import prepare


@pytest.fixture
def trained(make_checkpoint: Callable[..., Path], ref: Reference) -> ViT:
    """A classifier fitted to seven images, one step of least squares: confident with its own two heads."""
    model = load_checkpoint(make_checkpoint(width=64, seed=4)).model
    assert isinstance(model, ViT)
    images = torch.from_numpy(ref.images)
    features = model.features(images).double()
    targets = 5 * torch.nn.functional.one_hot(torch.arange(7) % 5, 5).double()
    fitted = torch.linalg.lstsq(features, targets, driver="gelsd").solution
    model.head.weight.copy_(fitted.T)
    model.head.bias.zero_()
    return model


def test_right_number_is_the_most_confident(trained: ViT, ref: Reference) -> None:
    found = confidence_by_heads(trained, torch.from_numpy(ref.images))
    assert sorted(found) == [1, 2, 4, 8], "heads are at least 8 wide"
    assert next(iter(found)) == 2
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert found[2] == pytest.approx(np.exp(5) / (np.exp(5) + 4), abs=0.01)


def test_right_assumption_is_confirmed_and_a_wrong_one_refused(trained: ViT, ref: Reference) -> None:
    assert "heads: 2 confirmed on 7 images" in settle_heads(trained, ref.images)
    wrong = ViT(dataclasses.replace(trained.config, heads=8)).eval()
    wrong.load_state_dict(trained.state_dict())
    with pytest.raises(ExportError, match=r"8 heads were assumed.*give --heads 2"):
        settle_heads(wrong, ref.images)


@pytest.mark.parametrize(
    ("confidence", "outcome"),
    [
        ({2: 0.9, 4: 0.5, 1: 0.4}, r"heads: 2 confirmed on 7 images \(mean confidence 0\.90 with 2, 0\.50 with 4\)"),
        ({2: 0.55, 4: 0.5, 1: 0.4}, "heads: 2 not settled on 7 images"),
        ({4: 0.55, 2: 0.5, 1: 0.4}, "heads: 2 not settled on 7 images"),
    ],
)
def test_verdicts(
    confidence: dict[int, float],
    outcome: str,
    checkpoint: Checkpoint,
    ref: Reference,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heads, "confidence_by_heads", lambda model, images: confidence)
    assert re.match(outcome, settle_heads(checkpoint.model, ref.images))


def test_another_number_that_is_clearly_better_is_an_error(
    checkpoint: Checkpoint, ref: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "confidence_by_heads", lambda model, images: {4: 0.9, 2: 0.4, 1: 0.3})
    with pytest.raises(ExportError, match=r"2 heads were assumed.*0\.40 with 2, 0\.90 with 4\): give --heads 4"):
        settle_heads(checkpoint.model, ref.images)


@pytest.mark.real
def test_real_vit_tiny_has_three(shared: Path) -> None:
    options = LoadOptions(arch="vit_tiny_patch16_224")
    loaded = load_checkpoint(shared / "data" / "vit_tiny_patch16_224.safetensors", options)
    assert loaded.preprocess is not None
    photos = find_images(shared / "data" / "photos_24")[:8]
    images = np.stack([prepare(decode(path), loaded.preprocess) for path in photos])
    assert isinstance(loaded.model, ViT)
    found = confidence_by_heads(loaded.model, torch.from_numpy(images))
    assert next(iter(found)) == 3
    assert "heads: 3 confirmed" in settle_heads(loaded.model, images)
