"""Checkpoints of all sources: `load_checkpoint` tells what a file is and builds the model it belongs to.

One module a source, tried in the order of `FORMATS`; the first whose names match reads it.
"""

import dataclasses
from pathlib import Path
from types import ModuleType

from torch import Tensor

from vit_edge.building import Config, build
from vit_edge.checkpoints import (
    google,
    huggingface,
    native,
    swin,
    swin_huggingface,
    timm,
    timm_eva,
    torchvision,
    tutorial,
)
from vit_edge.checkpoints.architecture import check_kind, with_architecture
from vit_edge.checkpoints.checkpoint import Checkpoint
from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.module import from_module
from vit_edge.checkpoints.native import save_checkpoint
from vit_edge.checkpoints.plan import LoadOptions, Plan
from vit_edge.checkpoints.reading import Source, read
from vit_edge.checkpoints.rules import assemble, parameter_shapes
from vit_edge.hub import fetch, is_hub_id
from vit_edge.positions import resample_positions
from vit_edge.swin_config import SwinConfig

__all__ = [
    "FORMATS",
    "Checkpoint",
    "CheckpointError",
    "LoadOptions",
    "from_module",
    "load_checkpoint",
    "save_checkpoint",
]

FORMATS: tuple[ModuleType, ...] = (
    native,
    swin_huggingface,
    huggingface,
    swin,
    timm_eva,
    timm,
    torchvision,
    google,
    tutorial,
)
_NAMES = "vit-edge, Hugging Face, timm (and DeiT, MAE, DINOv2/v3, CLIP, SigLIP, EVA-02, Swin), torchvision, Google .npz"


def load_checkpoint(path: str | Path, options: LoadOptions | None = None) -> Checkpoint:
    """Load a checkpoint of any known source.

    Args:
        path: a weight file (.safetensors, .pth/.bin, .npz), a folder with one and its configs, or a Hub id
            (`hf:owner/name`, see `vit_edge.hub`).
        options: what the user says about it.

    Raises:
        CheckpointError: it cannot be read, is unsafe, is of no known source, or does not fit its architecture.
        ConfigError: the options or the checkpoint's own config make no valid model.
    """
    options = options or LoadOptions()
    if is_hub_id(str(path)):
        fetched = fetch(str(path))
        origin = {"repository": fetched.repository, "revision": fetched.revision}
        loaded = load_checkpoint(fetched.path, options)
        return dataclasses.replace(loaded, name=fetched.repository, about={**loaded.about, "hub": origin})
    source = read(Path(path))
    reader = next((module for module in FORMATS if module.matches(source)), None)
    if reader is None:
        some = ", ".join(list(source.tensors)[:3])
        raise CheckpointError(f"{path}: tensor names of no known source ({some}, ...); known: {_NAMES}")
    plan, state = _read_as(reader, source, options)
    config, state, notes = _at_size(plan.config, state, options.image_size)
    model = build(config)
    model.load_state_dict(state)
    labels, about_labels = _labels(plan)
    return Checkpoint(
        model=model.eval().requires_grad_(False),
        name=plan.name,
        format=plan.format,
        sha256=source.sha256,
        output=plan.output if config.classes else "features",
        preprocess=plan.preprocess,
        preprocess_origin=plan.preprocess_origin,
        labels=labels,
        notes=plan.notes + notes + about_labels,
        heads_assumed=plan.heads_assumed,
        about=plan.about,
        options=options,
    )


def _read_as(reader: ModuleType, source: Source, options: LoadOptions) -> tuple[Plan, dict[str, Tensor]]:
    """The plan of one format's reader and the model's tensors; where they do not fit, `--arch` may be the reason."""
    if reader is not native:  # whose own config tells
        check_kind(source, options, swin=reader in (swin, swin_huggingface))
    try:
        plan: Plan = with_architecture(reader.interpret(source, options), source, options)
        return plan, assemble(plan.rules, source.tensors, parameter_shapes(plan.config), plan.ignored)
    except CheckpointError as error:
        if options.arch is None or options.arch in str(error):
            raise
        raise CheckpointError(f"{error}; got --arch {options.arch}: is it the right one?") from error


def _labels(plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The checkpoint's class names; none, with a note, where their number is not that of the classes."""
    if len(plan.labels) in (0, plan.config.classes):
        return plan.labels, ()
    counts = f"{len(plan.labels)} names for {plan.config.classes} classes"
    return (), (f"labels: the checkpoint has {counts}, so none are used; --labels FILE gives the right ones",)


def _at_size(
    config: Config, state: dict[str, Tensor], size: tuple[int, int] | None
) -> tuple[Config, dict[str, Tensor], tuple[str, ...]]:
    """The model at the image size that is asked for; its position table is resampled."""
    if size is None or size == config.image_size:
        return config, state, ()
    if isinstance(config, SwinConfig):  # its reader has already made the windows fit the size
        raise AssertionError(f"a Swin was planned for {config.image_size}, {size} was asked for")
    resized = dataclasses.replace(config, image_size=size, remainder=False)
    if config.norm_axes == "tokens_and_width":
        raise CheckpointError(f"this model's LayerNorm fixes the image size: {config.image_size}, got {size}")
    if config.positions in ("learned", "learned_patches"):
        prefix = config.prefix_tokens if config.positions == "learned" else 0
        table = resample_positions(state["pos_embed"], config.grid, resized.grid, prefix)
        state = {**state, "pos_embed": table}
    note = f"positions resampled from {config.grid[0]}x{config.grid[1]} to {resized.grid[0]}x{resized.grid[1]} patches"
    return resized, state, (note,)
