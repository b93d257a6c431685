"""timm's constructor arguments of a Swin: from a config.json, and from the shapes of the weights."""

from math import isqrt
from typing import Any

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import FLAG, INTEGER, NUMBER, PAIR, Fields, Kind
from vit_edge.checkpoints.plan import block_count
from vit_edge.checkpoints.reading import Source
from vit_edge.swin_config import Size

__all__ = ["INTEGERS", "TABLE", "classifier", "from_shapes", "own_arguments", "per_stage"]

TABLE = "attn.relative_position_bias_table"


def _integers(value: object) -> tuple[int, ...] | None:
    read = [INTEGER.read(item) for item in value] if isinstance(value, list | tuple) else []
    return tuple(item for item in read if item is not None) if read and None not in read else None


def _windows(value: object) -> int | tuple[int, ...] | tuple[Size, ...] | None:
    if not isinstance(value, list | tuple):
        return INTEGER.read(value)
    pairs = [PAIR.read(item) for item in value if isinstance(item, list)]
    return tuple(p for p in pairs if p) if value and len(pairs) == len(value) and all(pairs) else _integers(value)


INTEGERS: Kind[tuple[int, ...]] = Kind("a list of whole numbers", _integers)
_WINDOWS: Kind[Any] = Kind("a window side, two of one window, or one a stage", _windows)
_UNDERSTOOD: dict[str, Kind[Any]] = {  # constructor arguments that decide the function
    **dict.fromkeys(("img_size", "patch_size"), PAIR),
    **dict.fromkeys(("in_chans", "num_classes", "embed_dim"), INTEGER),
    **dict.fromkeys(("depths", "num_heads"), INTEGERS),
    **dict.fromkeys(("qkv_bias", "patch_norm"), FLAG),
    "mlp_ratio": NUMBER,
    "window_size": _WINDOWS,
}
_ONLY: dict[str, Any] = {"global_pool": "avg", "head_dim": None, "always_partition": False, "ape": False}
_TRAINING_ONLY = {
    *("drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate", "weight_init", "strict_img_size"),
    "dynamic_img_size",
}


def own_arguments(given: Fields) -> dict[str, Any]:
    """The arguments that config.json's model_args hold.

    Raises:
        CheckpointError: one of them is not covered, or of the wrong kind.
    """
    odd = [name for name, value in _ONLY.items() if given.values.get(name, value) != value]
    unknown = sorted(map(str, set(given.values) - set(_UNDERSTOOD) - set(_ONLY) - _TRAINING_ONLY)) + odd
    if unknown:
        raise CheckpointError(f"{given.where}: not covered: {', '.join(unknown)}")
    values = {name: given.get(name, kind) for name, kind in _UNDERSTOOD.items()}
    return {name: value for name, value in values.items() if value is not None}


def from_shapes(source: Source) -> dict[str, Any]:
    """What the tensors themselves tell."""
    names = list(source.tensors)
    width, channels, *patch = source.shape("patch_embed.proj.weight", 4)
    stages = range(block_count(names, "layers."))
    head = classifier(source)
    tables = [source.shape(f"layers.{i}.blocks.0.{TABLE}", 2) for i in stages]
    return {
        "embed_dim": width,
        "in_chans": channels,
        "patch_size": tuple(patch),
        "depths": tuple(block_count(names, f"layers.{i}.blocks.") for i in stages),
        "num_heads": tuple(heads for _, heads in tables),
        "window_size": tuple((isqrt(rows) + 1) // 2 for rows, _ in tables),
        "mlp_ratio": source.shape("layers.0.blocks.0.mlp.fc1.weight", 2)[0] / width,
        "num_classes": source.shape(f"{head}.weight", 2)[0] if head else 0,
        "qkv_bias": "layers.0.blocks.0.attn.qkv.bias" in names,
        "patch_norm": "patch_embed.norm.weight" in names,
    }


def classifier(source: Source) -> str | None:
    """The classifier's name; None where the checkpoint is a backbone."""
    return next((name for name in ("head.fc", "head") if f"{name}.weight" in source.tensors), None)


def per_stage(window: int | tuple[int, ...] | tuple[Size, ...], stages: int) -> tuple[Size, ...]:
    """timm's `window_size`: one side, the two sides of one window, or one window a stage."""
    if isinstance(window, int):
        return ((window, window),) * stages
    if len(window) == 2 and isinstance(window[0], int) and isinstance(window[1], int):
        return ((window[0], window[1]),) * stages
    return tuple((side, side) if isinstance(side, int) else side for side in window)
