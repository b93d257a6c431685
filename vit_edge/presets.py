"""Named architectures: timm's names, torchvision's names, Swin's, the tutorial's and a tiny one for tests.

A preset carries what the weights do not show: the number of heads, rotary positions, and the preprocessing that the
family was trained with.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vit_edge.presets_swin import SWIN_FAMILIES, swin_names, swin_preset
from vit_edge.presets_timm import FAMILIES
from vit_edge.runtime.errors import ConfigError

__all__ = ["Preset", "families", "find_preset", "names"]

_LONGEST = 80  # of a name in a message


@dataclass(frozen=True, slots=True)
class Preset:
    """An architecture by name.

    `args` uses timm's constructor names (embed_dim, depth, num_heads, ...); `pretrained_cfg` is in timm's form.
    """

    name: str
    args: Mapping[str, Any]
    pretrained_cfg: Mapping[str, Any] = field(default_factory=dict)


_FIXED = {
    "tutorial_28": Preset("tutorial_28", {"img_size": 28, "patch_size": 4, "embed_dim": 8, "depth": 1, "num_heads": 2}),
    "test": Preset(
        "test",
        {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 10},
        {
            "input_size": [3, 32, 32],
            "interpolation": "bicubic",
            "crop_pct": 1.0,
            "mean": [0.5, 0.5, 0.5],
            "std": [0.5, 0.5, 0.5],
        },
    ),
}


def find_preset(name: str) -> Preset:
    """Look an architecture up by name; a tag behind a dot ("vit_tiny_patch16_224.augreg_in21k") is allowed.

    Raises:
        ConfigError: no family has this name; near names are listed.
    """
    plain = name.split(".")[0]
    preset = _FIXED.get(plain) or _of_family(plain)
    if preset is None:
        near = difflib.get_close_matches(plain[:_LONGEST], names(), n=3)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise ConfigError(f"unknown architecture {name[:_LONGEST]!r}: {hint}vit-edge export --list-archs shows all")
    return preset


def families() -> list[str]:
    """The patterns of names, one a family."""
    return [*(family.describe for family in FAMILIES), *SWIN_FAMILIES, *_FIXED]


def names() -> list[str]:
    """The names of published models; other sizes of the same families are found as well."""
    return [*(name for family in FAMILIES for name in family.examples), *swin_names(), *_FIXED]


def _of_family(name: str) -> Preset | None:
    for family in FAMILIES:
        match = re.fullmatch(family.pattern, name)
        if match is None:
            continue
        args, cfg = family.arguments(match)
        if args["img_size"] % args.get("patch_size", 1):
            return None
        return Preset(name, args, cfg)
    swin = swin_preset(name)
    return Preset(name, *swin) if swin else None
