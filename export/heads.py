"""Which number of heads do the weights belong to? Parity cannot tell: a wrong number is wrong on both sides."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from vit_edge.config import valid_heads
from vit_edge.export.errors import ExportError
from vit_edge.model import ViT

__all__ = ["confidence_by_heads", "settle_heads"]

# Real ViT-Tiny, 24 photos: 0.85 with its 3 heads, 0.40 with 4, the next best. Less than this lead settles nothing.
_CLEAR_LEAD = 1.2
_NARROWEST_HEAD = 8  # no published ViT has narrower heads; the tutorial's weights tell their number themselves


def confidence_by_heads(model: ViT, images: Tensor) -> Mapping[int, float]:
    """Mean probability of the predicted class for every possible number of heads.

    The right number gives clearly more confident predictions on images like those of the training.

    Args:
        model: with any number of heads.
        images: (B, C, height, width) float32, normalised; real images, 8 or more.

    Returns:
        Number of heads to confidence (0..1), the most confident first.
    """
    config = model.config
    confidence: dict[int, float] = {}
    for heads in valid_heads(config.width):
        if config.width // heads < min(_NARROWEST_HEAD, config.width):
            continue
        candidate = ViT(dataclasses.replace(config, heads=heads)).eval()
        candidate.load_state_dict(model.state_dict())
        with torch.no_grad():
            confidence[heads] = float(candidate(images).softmax(dim=-1).amax(dim=-1).mean())
    return dict(sorted(confidence.items(), key=lambda item: -item[1]))


def settle_heads(model: ViT, images: npt.NDArray[np.float32]) -> str:
    """Test an assumed number of heads against the other possible ones.

    Args:
        model: with the assumed number.
        images: (B, C, height, width) float32, normalised, real.

    Returns:
        What was found, for the user and the manifest.

    Raises:
        ExportError: another number is clearly more confident.
    """
    assumed = model.config.heads
    confidence = confidence_by_heads(model, torch.from_numpy(images))
    other = next((heads for heads in confidence if heads != assumed), assumed)
    figures = f"{confidence[assumed]:.2f} with {assumed}, {confidence[other]:.2f} with {other}"
    if confidence[other] > _CLEAR_LEAD * confidence[assumed]:
        raise ExportError(
            f"{assumed} heads were assumed, but other numbers are more confident on these images (mean confidence "
            f"{figures}): give --heads {other}, or the right number"
        )
    clear = confidence[assumed] > _CLEAR_LEAD * confidence[other]
    verdict = "confirmed" if clear else "not settled"
    return f"heads: {assumed} {verdict} on {len(images)} images (mean confidence {figures})"
