"""What of a model is exported: class scores, or the features and tokens of its backbone."""

import dataclasses
from typing import Literal, TypeAlias

from vit_edge.building import Model, build
from vit_edge.config import ViTConfig
from vit_edge.runtime.errors import ConfigError
from vit_edge.wrapped import Wrapped

__all__ = ["OutputKind", "giving"]

OutputKind: TypeAlias = Literal["logits", "probabilities", "features", "tokens"]


def giving(model: Model, kind: OutputKind) -> Model:
    """A model whose forward gives the output that is asked for; the same one where it does already.

    Features are the pooled vector in front of the classifier; tokens all tokens behind the last norm, those in front
    of the patches first. Probabilities are the logits here; the softmax is appended to the graph.

    Args:
        model: in eval mode; not changed.
        kind: what is asked for.

    Raises:
        ConfigError: the model has no such output.
    """
    if isinstance(model, Wrapped):
        return _as_it_is(model, kind)
    config = model.config
    if kind in ("logits", "probabilities"):
        if config.classes == 0:
            raise ConfigError(f"the checkpoint has no classifier, so it gives no {kind}: features or tokens it does")
        return model
    if kind == "tokens":
        if not isinstance(config, ViTConfig):
            raise ConfigError("this architecture has no sequence of tokens: logits and features it gives")
        final_norm: Literal["tokens", "none"] = "tokens" if config.final_norm == "tokens" else "none"
        wanted: ViTConfig = dataclasses.replace(
            config, classes=0, distillation_head=False, pool="none", final_norm=final_norm
        )
    elif isinstance(config, ViTConfig):
        wanted = dataclasses.replace(config, classes=0, distillation_head=False)
    else:
        return _filled(build(dataclasses.replace(config, classes=0)), model)
    return _filled(build(wanted), model)


def _as_it_is(model: Wrapped, kind: OutputKind) -> Model:
    """A foreign module gives what it gives; what that is called, the user says."""
    shape = model.config.output_shape
    if (kind == "tokens") != (len(shape) == 2):
        raise ConfigError(f"the module gives {shape} an image: that is no output of the kind {kind}")
    return model


def _filled(made: Model, model: Model) -> Model:
    """The new model with those of the old one's weights that it has."""
    state = model.state_dict()
    made.load_state_dict({name: state[name] for name in made.state_dict()})
    return made.eval().requires_grad_(False)
