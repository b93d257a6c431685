"""Named intermediate tensors of a model, for finding where two computations part."""

import torch
from torch import Tensor, nn

__all__ = ["intermediates"]


def intermediates(model: nn.Module, images: Tensor) -> dict[str, Tensor]:
    """Run the model once and keep the output of every submodule.

    Args:
        model: any module; submodules that return more than one tensor are left out.
        images: (B, C, height, width) of the model's dtype, normalised.

    Returns:
        Module name ("blocks.3.mlp.fc1", ...) to its output, in the order of execution; "" is the whole model.
    """
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> torch.utils.hooks.RemovableHandle:
        def hook(module: nn.Module, args: tuple[Tensor, ...], output: object) -> None:
            if isinstance(output, Tensor):
                outputs[name] = output.detach()

        return model.get_submodule(name).register_forward_hook(hook)

    handles = [keep(name) for name, _ in model.named_modules()]
    try:
        with torch.no_grad():
            model(images)
    finally:
        for handle in handles:
            handle.remove()
    return outputs
