"""A checkpoint that never was a file: a PyTorch module in memory, of whatever class."""

import copy
import hashlib
from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from vit_edge.building import Model
from vit_edge.checkpoints.checkpoint import Checkpoint
from vit_edge.checkpoints.plan import LoadOptions
from vit_edge.model import ViT
from vit_edge.outputs import OutputKind
from vit_edge.preprocess_timm import from_timm
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.preprocess import Preprocess
from vit_edge.swin import Swin
from vit_edge.wrapped import Wrapped, WrappedConfig, main_output

__all__ = ["from_module"]

Shape: TypeAlias = tuple[int, int, int]  # channels, height, width


def from_module(module: nn.Module, shape: Shape | None = None) -> Checkpoint:
    """Make a checkpoint of a module, which is copied: to the CPU, float32, eval mode, no gradients.

    Args:
        module: takes (B, *shape) float32 and gives (B, classes), or (B, tokens, width), as a tensor, or as `logits`
            or `last_hidden_state` of a record.
        shape: (channels, height, width); None asks the module, as ours, timm's and Hugging Face's tell it.

    Raises:
        ConfigError: the module does not run on such images, gives something else, or its shape is not known.
    """
    shape = shape or _told_shape(module)
    if shape is None:
        raise ConfigError(
            f"{type(module).__name__} does not tell its image size: "
            'give preprocess=vit_edge.preprocessing.named("imagenet", 224), or what it was trained with'
        )
    _check_movable(module)
    kinds = {str(parameter.dtype).removeprefix("torch.") for parameter in module.parameters()} - {"float32"}
    made = _copied(module)
    model: Model = made if isinstance(made, ViT | Swin) else _wrap(made, shape)
    output: OutputKind = "logits" if model.config.classes else "tokens" if isinstance(model, Wrapped) else "features"
    preprocess = _own_preprocess(module, shape)
    return Checkpoint(
        model=model,
        name=type(module).__name__,
        format="module",
        sha256=_digest(made),
        output=output,
        preprocess=preprocess,
        preprocess_origin="the module's pretrained_cfg" if preprocess else "",
        labels=_labels(module, model.config.classes),
        notes=tuple(f"the module's {kind} parameters were converted to float32" for kind in sorted(kinds)),
        heads_assumed=False,
        about={},
        options=LoadOptions(),
    )


def _copied(module: nn.Module) -> nn.Module:
    """A copy as it is exported: on the CPU, float32, eval mode, no gradients."""
    try:
        return copy.deepcopy(module).cpu().float().eval().requires_grad_(False)
    except Exception as error:  # what a module holds may refuse to be copied in any way
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ConfigError(
            f"{type(module).__name__} cannot be copied ({first}): results computed in __init__ belong into buffers "
            "(register_buffer) or behind detach(), old weight_norm is removed by remove_weight_norm"
        ) from error


def _check_movable(module: nn.Module) -> None:
    """Weights are there, and the code is Python that can be traced."""
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        raise ConfigError(f"{name} is TorchScript, which torch.export does not read: give the module it was made from")
    for key, tensor in (*module.named_parameters(), *module.named_buffers()):
        if isinstance(tensor, UninitializedParameter | UninitializedBuffer):
            raise ConfigError(f"{name}: {key!r} has no shape yet: run the module once, or load its weights")
        if tensor.is_meta:
            raise ConfigError(f"{name}: {key!r} is on the meta device, without values: load its weights")


def _told_shape(module: nn.Module) -> Shape | None:
    """As our models, timm's (`pretrained_cfg`) and Hugging Face's (`config`) tell it."""
    config = getattr(module, "config", None)
    timm = getattr(module, "pretrained_cfg", None)
    if isinstance(timm, Mapping) and "input_size" in timm:
        channels, height, width = timm["input_size"]
        return channels, height, width
    size = getattr(config, "image_size", None)
    channels = getattr(config, "channels", None) or getattr(config, "num_channels", None)
    if size is None or channels is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    return channels, height, width


def _own_preprocess(module: nn.Module, shape: Shape) -> Preprocess | None:
    """What a timm model carries with it."""
    cfg = getattr(module, "pretrained_cfg", None)
    return from_timm(cfg, shape[1:]) if isinstance(cfg, Mapping) and "mean" in cfg else None


def _wrap(module: nn.Module, shape: Shape) -> Wrapped:
    output = _probe(module, 2, shape)
    if output.shape[1:] != _probe(module, 3, shape).shape[1:]:
        raise ConfigError(f"{type(module).__name__} gives each image another shape when there are three of them")
    name = f"{type(module).__module__}.{type(module).__qualname__}"
    channels, height, width = shape
    config = WrappedConfig(
        module=name, image_size=(height, width), channels=channels, output_shape=tuple(output.shape[1:])
    )
    return Wrapped(module, config).eval()


def _probe(module: nn.Module, batch: int, shape: Shape) -> Tensor:
    """The output for black images; what is wrong with it is said before anything is traced."""
    name = type(module).__name__
    try:
        with torch.no_grad():
            output = main_output(module(torch.zeros(batch, *shape)))
    except ConfigError:
        raise
    except Exception as error:  # the module is a user's own code, which may raise anything
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"{name} does not run on images {(batch, *shape)} float32: {first}") from error
    if output.ndim not in (2, 3) or output.shape[0] != batch or output.dtype != torch.float32:
        kind = str(output.dtype).removeprefix("torch.")
        got = f"{tuple(output.shape)} {kind} for {batch} images"
        raise ConfigError(f"{name} gives {got}, expected ({batch}, classes) float32")
    return output


def _labels(module: nn.Module, classes: int) -> tuple[str, ...]:
    """A Hugging Face model's own, unless they are those that transformers makes up."""
    names = getattr(getattr(module, "config", None), "id2label", None)
    if not classes or not isinstance(names, Mapping) or sorted(names) != list(range(classes)):
        return ()
    made_up = all(names[index] == f"LABEL_{index}" for index in range(classes))
    return () if made_up else tuple(str(names[index]) for index in range(classes))


def _digest(module: nn.Module) -> str:
    """SHA-256 over names, shapes and values of all parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
