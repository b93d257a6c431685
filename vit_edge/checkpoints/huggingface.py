"""Hugging Face's vision transformers: a folder with transformers' config.json, whose architecture tells the family.

Swin has a reader of its own, `swin_huggingface`.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from vit_edge.checkpoints import (
    huggingface_clip,
    huggingface_dinov2,
    huggingface_dinov3,
    huggingface_siglip,
    huggingface_vit,
)
from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import TEXT, TEXTS
from vit_edge.checkpoints.huggingface_reading import Reading
from vit_edge.checkpoints.plan import LoadOptions, Plan
from vit_edge.checkpoints.reading import Source
from vit_edge.preprocessing import from_huggingface
from vit_edge.runtime.preprocess import Preprocess

__all__ = ["ARCHITECTURES", "interpret", "matches"]

_Reader: TypeAlias = Callable[[Source, LoadOptions, str], Reading]

ARCHITECTURES: Mapping[str, _Reader] = {  # the class that saved the checkpoint -> the reader of its family
    "ViTForImageClassification": huggingface_vit.read,
    "ViTModel": huggingface_vit.read,
    "DeiTForImageClassification": huggingface_vit.read,
    "DeiTForImageClassificationWithTeacher": huggingface_vit.read,
    "DeiTModel": huggingface_vit.read,
    "Dinov2ForImageClassification": huggingface_dinov2.read,
    "Dinov2Model": huggingface_dinov2.read,
    "Dinov2WithRegistersForImageClassification": huggingface_dinov2.read,
    "Dinov2WithRegistersModel": huggingface_dinov2.read,
    "DINOv3ViTModel": huggingface_dinov3.read,
    "CLIPForImageClassification": huggingface_clip.read,
    "CLIPModel": huggingface_clip.read,
    "CLIPVisionModel": huggingface_clip.read,
    "SiglipForImageClassification": huggingface_siglip.read,
    "SiglipModel": huggingface_siglip.read,
    "SiglipVisionModel": huggingface_siglip.read,
}
_FAMILIES = "ViT, DeiT, DINOv2 (with registers too), DINOv3 (its ViT), CLIP, SigLIP and Swin"
_LAYERS = (  # ViT, DeiT and DINOv2; CLIP and SigLIP; DINOv3
    "encoder.layer.0.attention.attention.query.weight",
    "encoder.layers.0.self_attn.q_proj.weight",
    "layer.0.attention.q_proj.weight",
)


def matches(source: Source) -> bool:
    """A transformers config.json, or tensors under transformers' names."""
    return "model_type" in source.config.values or any(name.endswith(_LAYERS) for name in source.tensors)


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Read sizes and heads from config.json; the weights then have to fit."""
    config = source.config
    if not config.values:
        raise CheckpointError(
            f"{source.path}: has Hugging Face's names but no config.json, which tells heads and sizes: give the folder "
            "with config.json, or put it beside a file named model.safetensors or pytorch_model.bin"
        )
    architecture = "".join(config.get("architectures", TEXTS, ())[:1])
    if architecture not in ARCHITECTURES:
        got = architecture or config.get("model_type", TEXT) or "a config.json without model_type"
        raise CheckpointError(
            f"{source.path}: {got[:80]} is not covered: of Hugging Face's models the classifiers and backbones of "
            f"{_FAMILIES} are"
        )
    reading = ARCHITECTURES[architecture](source, options, architecture)
    preprocess, about_size = _preprocessing(source, reading.config.image_size, options)
    return Plan(
        config=reading.config,
        rules=reading.rules,
        format="huggingface",
        name=config.get("_name_or_path", TEXT) or source.path.resolve().stem,
        ignored=reading.ignored,
        preprocess=preprocess,
        preprocess_origin="the checkpoint's preprocessor_config.json" if preprocess else "",
        labels=_labels(source) if reading.config.classes else (),
        notes=reading.notes + about_size,
        heads_assumed=reading.heads_assumed,
    )


def _preprocessing(
    source: Source, size: tuple[int, int], options: LoadOptions
) -> tuple[Preprocess | None, tuple[str, ...]]:
    """The checkpoint's own, for the model's size; a note where the file itself makes images of another size."""
    if not source.preprocessor:
        return None, ()
    preprocess = from_huggingface(source.preprocessor, options.image_size or size)
    own = from_huggingface(source.preprocessor).size
    if options.image_size or own == size:
        return preprocess, ()
    note = (
        f"image size: {size[0]}x{size[1]} as config.json says; preprocessor_config.json makes {own[0]}x{own[1]}, for "
        f"which transformers interpolates the positions: --image-size {own[0]}x{own[1]} does it"
    )
    return preprocess, (note,)


def _labels(source: Source) -> tuple[str, ...]:
    names = source.config.inner("id2label")
    return tuple(names.need(str(index), TEXT) for index in range(len(names.values)))
