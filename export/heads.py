"""Which number of heads do the weights belong to? Parity cannot tell: a wrong number is wrong on both sides."""

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from vit_edge.config import valid_heads
from vit_edge.model import ViT

__all__ = ["confidence_by_heads"]

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
