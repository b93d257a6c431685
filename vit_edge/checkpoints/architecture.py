"""What the user named with `--arch`, held against what the checkpoint is."""

import dataclasses

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import TEXT
from vit_edge.checkpoints.plan import LoadOptions, Plan
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.timm_arguments import pair
from vit_edge.config import ViTConfig
from vit_edge.preprocessing import from_timm
from vit_edge.presets import Preset, find_preset

__all__ = ["check_kind", "with_architecture"]


def with_architecture(plan: Plan, source: Source, options: LoadOptions) -> Plan:
    """Check a plan against the named architecture; its preprocessing is used where the file tells none.

    Raises:
        CheckpointError: the checkpoint is not of this architecture.
        ConfigError: there is no such architecture.
    """
    if options.arch is None:
        return plan
    preset = find_preset(options.arch)
    own_name = source.config.get("architecture", TEXT, "")
    if own_name.split(".")[0] != preset.name:  # under its own name a config's arguments win: they are the details
        _check(plan, preset, source, options)
    if plan.preprocess is not None or not preset.pretrained_cfg or plan.config.channels != 3:
        return plan
    preprocess = from_timm(preset.pretrained_cfg, options.image_size or plan.config.image_size)
    return dataclasses.replace(plan, preprocess=preprocess, preprocess_origin=f"the preset of {preset.name}")


def check_kind(source: Source, options: LoadOptions, *, swin: bool) -> None:
    """A ViT's name for a Swin's weights, or the reverse: neither's fields mean anything to the other.

    Raises:
        CheckpointError: the named architecture is of the other kind.
    """
    if options.arch is None or swin == ("depths" in find_preset(options.arch).args):
        return
    named, found = ("a ViT", "a Swin") if swin else ("a Swin", "a ViT")
    raise CheckpointError(f"{source.path}: {options.arch} is {named}, the weights are of {found}")


def _check(plan: Plan, preset: Preset, source: Source, options: LoadOptions) -> None:
    config, args = plan.config, preset.args
    check_kind(source, options, swin=not isinstance(config, ViTConfig))
    depth = (args["depth"], config.depth) if isinstance(config, ViTConfig) else (args["depths"], config.depths)
    sizes: dict[str, tuple[object, object]] = {  # name -> in the architecture, in the checkpoint
        "width": (args["embed_dim"], config.width),
        "depth": depth,
        "patch size": (pair(args["patch_size"]) if "patch_size" in args else config.patch_size, config.patch_size),
    }
    if options.heads is None:
        sizes["heads"] = (args["num_heads"], config.heads)
    differing = [f"{name} is {there} there, {here} here" for name, (there, here) in sizes.items() if there != here]
    if differing:
        raise CheckpointError(
            f"{source.path}: is no {preset.name}: {'; '.join(differing)}; name the right --arch or none"
        )
