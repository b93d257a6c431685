"""Swin Transformers under timm's names, and Microsoft's `.pth` files, whose names older timm versions share.

Sources of the conventions: timm `models/swin_transformer.py` (SwinTransformer, checkpoint_filter_fn); Microsoft
`models/swin_transformer.py`, where patch merging closes a stage instead of opening the next one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

from torch import Tensor

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import INTEGER, OBJECT, TEXT, TEXTS
from vit_edge.checkpoints.plan import LoadOptions, Plan
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule, Shape, Split, copy
from vit_edge.checkpoints.swin_arguments import TABLE, classifier, from_shapes, own_arguments, per_stage
from vit_edge.checkpoints.timm_arguments import pretrained_size
from vit_edge.preprocessing import from_timm
from vit_edge.presets_swin import swin_preset
from vit_edge.runtime.preprocess import Preprocess
from vit_edge.swin_config import Size, SwinConfig
from vit_edge.window_positions import resample_bias_table

__all__ = ["ResampleTable", "file_windows", "interpret", "matches", "window_notes"]

_BUFFERS = (r"layers\.\d+\.blocks\.\d+\.(attn\.relative_position_index|attn_mask)",)


@dataclass(frozen=True, slots=True)
class ResampleTable:
    """A bias table of the window `old` for the window `new`."""

    old: Size
    new: Size

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        """The old window's offsets, and as many heads."""
        return [((2 * self.old[0] - 1) * (2 * self.old[1] - 1), shape[1]) for shape in targets]

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        """The resampled table."""
        return [resample_bias_table(source, self.old, self.new) for source in sources]


def matches(source: Source) -> bool:
    """A timm config.json of a Swin, or tensors under timm's names for one."""
    name = source.config.values.get("architecture")
    return f"layers.0.blocks.0.{TABLE}" in source.tensors or (isinstance(name, str) and name.startswith("swin_"))


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Settle the architecture: the shapes tell all but image size and window, which a config or a name adds."""
    name = options.arch or source.config.get("architecture", TEXT)
    preset, cfg = (swin_preset(name) if name else None) or ({}, {})
    size = pretrained_size(source)
    args = from_shapes(source)
    args.update((key, preset[key]) for key in ("img_size", "window_size") if key in preset)
    if size:
        args["img_size"] = size
    args.update(own_arguments(source.config.inner("model_args")))
    args["num_classes"] = source.config.get("num_classes", INTEGER, args["num_classes"])
    config, assumed = _config(args, None)
    tables = [f"layers.{i}.blocks.0.{TABLE}" for i in range(len(config.depths))]
    old = file_windows(source, tables, config, options)
    if options.image_size:
        config, assumed = _config(args, options.image_size)
    preprocess, origin = _preprocess(source, config, cfg, name)
    return Plan(
        config=config,
        rules=_rules(source, config, old),
        format="timm",
        name=name or source.path.stem,
        ignored=_BUFFERS,
        preprocess=preprocess,
        preprocess_origin=origin,
        labels=_labels(source),
        notes=assumed + window_notes(config, old),
    )


def _config(args: Mapping[str, Any], size: Size | None) -> tuple[SwinConfig, tuple[str, ...]]:
    """The configuration at an image size, else at the one that is known, else at the usual one."""
    stages = len(args["depths"])
    windows = per_stage(args["window_size"], stages)
    usual = tuple(side * step * 2 ** (stages - 1) for side, step in zip(windows[-1], args["patch_size"], strict=True))
    known = size or args.get("img_size")
    note = f"image size: {usual[0]}x{usual[1]} is an assumption (its last stage is one window); --image-size settles it"
    config = SwinConfig(
        image_size=known or (usual[0], usual[1]),
        patch_size=args["patch_size"],
        channels=args["in_chans"],
        width=args["embed_dim"],
        depths=args["depths"],
        heads=args["num_heads"],
        window_size=windows,
        mlp_ratio=args["mlp_ratio"],
        classes=args["num_classes"],
        qkv_bias=args["qkv_bias"],
        patch_norm=args["patch_norm"],
    )
    return config, () if known else (note,)


def file_windows(source: Source, tables: Sequence[str], config: SwinConfig, options: LoadOptions) -> list[Size]:
    """The windows that the bias tables in the file are for, one a stage.

    Raises:
        CheckpointError: a table belongs to no window, or the user gives a number of heads, which the tables tell.
    """
    if options.heads is not None:
        raise CheckpointError(f"{source.path}: a Swin's bias tables tell the heads of each stage: leave out --heads")
    found = []
    for name, stage in zip(tables, config.stages, strict=True):
        rows = source.shape(name, 2)[0]
        side = (isqrt(rows) + 1) // 2
        declared = (2 * stage.window[0] - 1) * (2 * stage.window[1] - 1) == rows
        if not declared and (2 * side - 1) ** 2 != rows:
            raise CheckpointError(f"{source.path}: {name} has {rows} rows, which no window of this image size has")
        found.append(stage.window if declared else (side, side))
    return found


def window_notes(config: SwinConfig, old: Sequence[Size]) -> tuple[str, ...]:
    """A note for each stage whose table is resampled."""
    return tuple(
        f"stage {i}: bias tables resampled from windows of {a[0]}x{a[1]} to {b.window[0]}x{b.window[1]}"
        for i, (a, b) in enumerate(zip(old, config.stages, strict=True))
        if a != b.window
    )


def _rules(source: Source, config: SwinConfig, old: Sequence[Size]) -> list[Rule]:
    made = copy("patch_embed.proj", "patch_embed.proj") + copy("patch_embed.norm", "patch_embed.norm")
    made += copy("norm", "norm") + copy(classifier(source) or "head", "head")
    closes = int("layers.0.downsample.reduction.weight" in source.tensors)  # merging closes the stage before
    for i, stage in enumerate(config.stages):
        theirs, ours = f"layers.{i - closes}.downsample", f"layers.{i}.downsample"
        made += copy(f"{theirs}.norm", f"{ours}.norm")
        made.append(Rule((f"{theirs}.reduction.weight",), (f"{ours}.reduction.weight",), Copy()))
        for j in range(config.depths[i]):
            block = f"layers.{i}.blocks.{j}"
            for part in ("weight", "bias"):
                targets = tuple(f"{block}.attn.{layer}.{part}" for layer in "qkv")
                made.append(Rule((f"{block}.attn.qkv.{part}",), targets, Split()))
            for name in ("norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"):
                made += copy(f"{block}.{name}", f"{block}.{name}")
            made.append(Rule((f"{block}.{TABLE}",), (f"{block}.{TABLE}",), ResampleTable(old[i], stage.window)))
    return made


def _preprocess(
    source: Source, config: SwinConfig, preset_cfg: Mapping[str, Any], name: str | None
) -> tuple[Preprocess | None, str]:
    own = source.config.get("pretrained_cfg", OBJECT)
    if own:
        return from_timm(own, config.image_size), "the checkpoint's pretrained_cfg"
    if preset_cfg and config.channels == 3:
        return from_timm(preset_cfg, config.image_size), f"the preset of {name}"
    return None, ""


def _labels(source: Source) -> tuple[str, ...]:
    for fields in (source.config, source.config.inner("pretrained_cfg")):
        names = fields.get("label_names", TEXTS, ())
        if names:
            described = fields.inner("label_descriptions")
            return tuple(described.get(name, TEXT, name) for name in names)
    return ()
