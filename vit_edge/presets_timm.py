"""timm's architectures by family: a pattern of names, constructor arguments, and the preprocessing of the family.

Sizes: Dosovitskiy et al. 2021 table 1 (base, large, huge), Touvron et al. 2021 table 1 (tiny, small). Arguments and
preprocessing: timm's model functions and `default_cfgs` in vision_transformer.py, vision_transformer_hybrid.py,
deit.py and eva.py; torchvision's `ViT_*_Weights`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FAMILIES", "Family"]

Arguments = dict[str, Any]
_Size = tuple[int, int, int]  # width, depth, heads

_SIZES: Mapping[str, _Size] = {
    "tiny": (192, 12, 3),
    "small": (384, 12, 6),
    "medium": (512, 12, 8),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "huge": (1280, 32, 16),
}
_HALF = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
_IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
_CLIP = {"mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711]}


def _common(sizes: Mapping[str, _Size], match: re.Match[str], image: int | None = None) -> Arguments:
    width, depth, heads = sizes[match["size"]]
    image = image or int(match["image"])
    args: Arguments = {"img_size": image, "embed_dim": width, "depth": depth, "num_heads": heads}
    if "patch" in match.re.groupindex:
        args["patch_size"] = int(match["patch"])
    return args


def _cfg(args: Arguments, colours: Mapping[str, Any], crop: float | None = None) -> Arguments:
    """Bicubic; 0.9 of the image at 224 px and all of it at higher resolutions, unless the family differs."""
    image = args["img_size"]
    usual = 0.9 if image == 224 else 1.0
    return {"input_size": [3, image, image], "interpolation": "bicubic", "crop_pct": crop or usual, **colours}


def _vit(match: re.Match[str]) -> tuple[Arguments, Arguments]:
    args = _common(_SIZES, match)
    if match["rpn"]:
        args |= {"qkv_bias": False, "class_token": False, "global_pool": "avg", "res_post_norm": True}
    return args, _cfg(args, _HALF)


def _deit(match: re.Match[str]) -> tuple[Arguments, Arguments]:
    args = _common(_SIZES, match)
    if match["distilled"]:
        args["distilled"] = True
    return args, _cfg(args, _IMAGENET)


def _deit3(match: re.Match[str]) -> tuple[Arguments, Arguments]:
    args = {**_common(_SIZES, match), "no_embed_class": True, "init_values": 1e-6}
    return args, _cfg(args, _IMAGENET)


def _dinov2(match: re.Match[str]) -> tuple[Arguments, Arguments]:
    args = {**_common({**_SIZES, "giant": (1536, 40, 24)}, match, image=518), "init_values": 1e-5}
    if match["registers"]:
        args |= {"reg_tokens": 4, "no_embed_class": True}
    return args, _cfg(args, _IMAGENET)


def _clip(match: re.Match[str]) -> tuple[Arguments, Arguments]:
    args = {**_common(_SIZES, match), "pre_norm": True, "norm_eps": 1e-5}
    if match["quick"]:
        args["act_layer"] = "quick_gelu"
    return args, _cfg(args, _CLIP)


def _siglip(match: re.Match[str]) -> tuple[Arguments, Arguments]:
    args = _common({**_SIZES, "so400m": (1152, 27, 16)}, match)
    args |= {"class_token": False, "global_pool": "map"}
    return args, _cfg(args, _HALF, crop=0.9)


def _dinov3(match: re.Match[str]) -> tuple[Arguments, Arguments]:
    sizes = {**_SIZES, "small_plus": _SIZES["small"], "huge_plus": (1280, 32, 20)}
    args = {**_common(sizes, match, image=256), "num_reg_tokens": 4, "no_embed_class": True, "norm_eps": 1e-5}
    args |= {"use_rot_pos_emb": True, "use_abs_pos_emb": False, "rope_type": "dinov3", "rope_temperature": 100.0}
    args |= {"rope_rotate_half": True}
    args |= {"qkv_bias": match["bias"] is not None, "init_values": 1e-5, "use_fc_norm": False, "global_pool": "avg"}
    return args, _cfg(args, _IMAGENET)


def _eva02(match: re.Match[str]) -> tuple[Arguments, Arguments]:
    args = {**_common(_SIZES, match), "swiglu_mlp": True, "mlp_ratio": 4 * 2 / 3, "global_pool": "avg"}
    args |= {"use_rot_pos_emb": True, "use_abs_pos_emb": True, "ref_feat_shape": (16, 16), "use_fc_norm": None}
    args |= {"scale_mlp": match["size"] in ("base", "large")}
    return args, _cfg(args, _CLIP)


def _hybrid(match: re.Match[str]) -> tuple[Arguments, Arguments]:
    args = _common(_SIZES, match)  # patches and the ResNet in front show in the weights
    return args, _cfg(args, _HALF)


def _torchvision(match: re.Match[str]) -> tuple[Arguments, Arguments]:
    width, depth, heads = _SIZES[{"b": "base", "l": "large", "h": "huge"}[match["size"]]]
    args = {"img_size": 224, "patch_size": int(match["patch"]), "embed_dim": width, "depth": depth, "num_heads": heads}
    return args, {"input_size": [3, 224, 224], "interpolation": "bilinear", "crop_pct": 0.875, **_IMAGENET}


@dataclass(frozen=True, slots=True)
class Family:
    """Architectures whose names have one pattern.

    `describe` is for people; `pattern` matches whole names; `arguments` gives timm's arguments and pretrained_cfg.
    """

    describe: str
    pattern: str
    arguments: Callable[[re.Match[str]], tuple[Arguments, Arguments]]
    examples: tuple[str, ...]  # published names, for lists and suggestions


def _names(template: str, **choices: tuple[object, ...]) -> tuple[str, ...]:
    """Every combination of the choices in the template."""
    names = [template]
    for key, values in choices.items():
        names = [name.replace(f"{{{key}}}", str(value)) for name in names for value in values]
    return tuple(names)


_PATCH = r"patch(?P<patch>[1-9][0-9]?)"
_IMAGE = r"(?P<image>[1-9][0-9]{1,3})"

FAMILIES: tuple[Family, ...] = (
    Family(
        "vit_{tiny,small,base,large,huge}_patch{8,14,16,32}[_rpn]_{224,384}",
        rf"vit_(?P<size>tiny|small|medium|base|large|huge)_{_PATCH}(?P<rpn>_rpn)?_{_IMAGE}",
        _vit,
        (
            *_names("vit_{size}_patch16_{image}", size=("tiny", "small", "base", "large"), image=(224, 384)),
            *_names("vit_{size}_patch32_{image}", size=("small", "base", "large"), image=(224, 384)),
            *("vit_small_patch8_224", "vit_base_patch8_224", "vit_huge_patch14_224", "vit_base_patch16_rpn_224"),
        ),
    ),
    Family(
        "deit_{tiny,small,base}[_distilled]_patch16_{224,384}",
        rf"deit_(?P<size>tiny|small|base)(?P<distilled>_distilled)?_{_PATCH}_{_IMAGE}",
        _deit,
        (
            *_names("deit_{size}{kind}_patch16_224", size=("tiny", "small", "base"), kind=("", "_distilled")),
            *_names("deit_base{kind}_patch16_384", kind=("", "_distilled")),
        ),
    ),
    Family(
        "deit3_{small,medium,base,large,huge}_patch{14,16}_{224,384}",
        rf"deit3_(?P<size>small|medium|base|large|huge)_{_PATCH}_{_IMAGE}",
        _deit3,
        (
            *_names("deit3_{size}_patch16_224", size=("small", "medium", "base", "large")),
            "deit3_huge_patch14_224",
            *_names("deit3_{size}_patch16_384", size=("small", "base", "large")),
        ),
    ),
    Family(
        "vit_{small,base,large,giant}_patch14[_reg4]_dinov2",
        rf"vit_(?P<size>small|base|large|giant)_{_PATCH}(?P<registers>_reg4)?_dinov2",
        _dinov2,
        _names("vit_{size}_patch14{kind}_dinov2", size=("small", "base", "large", "giant"), kind=("", "_reg4")),
    ),
    Family(
        "vit_{base,large,huge}_patch{14,16,32}_clip[_quickgelu]_{224,336,384}",
        rf"vit_(?P<size>base|large|huge)_{_PATCH}_clip(?P<quick>_quickgelu)?_{_IMAGE}",
        _clip,
        _names("vit_base_patch{patch}_clip{kind}_224", patch=(16, 32), kind=("", "_quickgelu"))
        + _names("vit_large_patch14_clip{kind}_{image}", kind=("", "_quickgelu"), image=(224, 336))
        + ("vit_huge_patch14_clip_224",),
    ),
    Family(
        "vit_{base,large,so400m}_patch{14,16}_siglip_{224,256,384,512}",
        rf"vit_(?P<size>base|large|so400m)_{_PATCH}_siglip_{_IMAGE}",
        _siglip,
        _names("vit_base_patch16_siglip_{image}", image=(224, 256, 384, 512))
        + _names("vit_large_patch16_siglip_{image}", image=(256, 384))
        + _names("vit_so400m_patch14_siglip_{image}", image=(224, 378)),
    ),
    Family(
        "vit_{small,small_plus,base,large,huge_plus}_patch16_dinov3[_qkvb]",
        rf"vit_(?P<size>small|small_plus|base|large|huge_plus)_{_PATCH}_dinov3(?P<bias>_qkvb)?",
        _dinov3,
        _names(
            "vit_{size}_patch16_dinov3{kind}",
            size=("small", "small_plus", "base", "large", "huge_plus"),
            kind=("", "_qkvb"),
        ),
    ),
    Family(
        "eva02_{tiny,small,base,large}_patch14_{224,336,448}",
        rf"eva02_(?P<size>tiny|small|base|large)_{_PATCH}_{_IMAGE}",
        _eva02,
        _names("eva02_{size}_patch14_224", size=("tiny", "small", "base", "large"))
        + _names("eva02_{size}_patch14_336", size=("tiny", "small"))
        + _names("eva02_{size}_patch14_448", size=("base", "large")),
    ),
    Family(
        "vit_{tiny,small,base,large}_{r,r26,r50}_s{16,32}[_p8]_{224,384}",
        rf"vit_(?P<size>tiny|small|base|large)_r(?:26|50)?_s(?:16|32)(?:_p8)?_{_IMAGE}",
        _hybrid,
        _names("vit_tiny_r_s16_p8_{image}", image=(224, 384))
        + _names("vit_{size}_r26_s32_{image}", size=("small",), image=(224, 384))
        + _names("vit_{size}_{image}", size=("base_r50_s16", "large_r50_s32"), image=(224, 384)),
    ),
    Family(
        "vit_{b,l,h}_{14,16,32} (torchvision)",
        r"vit_(?P<size>[blh])_(?P<patch>14|16|32)",
        _torchvision,
        ("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32", "vit_h_14"),
    ),
)
