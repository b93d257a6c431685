"""The files of a search: exported, quantized, and written with the session entries that were chosen."""

import dataclasses
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.manifest import Manifest
from vit_edge.runtime.preprocess_spec import Preprocess
from vit_edge.tune.space import BASE, Candidate, Variant

__all__ = ["Source", "make", "write_chosen"]

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Source:
    """What files are made from.

    Attributes:
        model: the given file.
        manifest: of it.
        checkpoint: for other resolutions; None where none was given.
        arch: of the checkpoint, where it does not tell.
        heads: the same.
    """

    model: Path
    manifest: Manifest
    checkpoint: str | None = None
    arch: str | None = None
    heads: int | None = None


def make(variant: Variant, source: Source, folder: Path, calibration: Sequence[Path], progress: Progress) -> Path:
    """Make the file of a variant.

    Args:
        variant: an int8 variant of another size needs the float file of that size in `folder`.
        source: what it is made from.
        folder: where it is written.
        calibration: images.
        progress: called with each step; may raise to stop.

    Returns:
        Its path; the given file itself for the first variant.

    Raises:
        VitEdgeError: it cannot be made.
    """
    if variant == BASE:
        return source.model
    path = folder / f"{variant.name}.onnx"
    if variant.precision == "fp32":
        _export(variant, source, path, progress)
        return path
    from vit_edge.export.quantization import Int8, Int8Dynamic, Target, quantize

    schemes: dict[str, Int8 | Int8Dynamic] = {
        "int8": Int8(),
        "int8-careful": Int8(target=Target(agreement=1.0, l2=0.03, float_share=0.15)),
        "int8-bold": Int8(target=Target(agreement=0.9, l2=0.3, float_share=0.0)),
        "int8-dynamic": Int8Dynamic(),
    }
    origin = source.model if variant.size is None else folder / f"{Variant('fp32', variant.size).name}.onnx"
    quantize(origin, path, schemes[variant.precision], images=calibration, progress=progress)
    return path


def _export(variant: Variant, source: Source, path: Path, progress: Progress) -> None:
    from vit_edge.checkpoints import LoadOptions, load_checkpoint
    from vit_edge.export import ExportOptions, export

    if source.checkpoint is None or variant.size is None:
        raise ConfigError("other resolutions need --checkpoint")
    size = (variant.size, variant.size)
    loaded = load_checkpoint(source.checkpoint, LoadOptions(arch=source.arch, heads=source.heads, image_size=size))
    manifest = source.manifest
    if loaded.sha256 != manifest.model.source_sha256:
        raise ConfigError(f"{source.checkpoint} is not the checkpoint that {source.model} was made from")
    options = ExportOptions(
        preprocess=_resized(manifest.input.preprocess, size),
        preprocess_origin=f"that of {source.model.name}",
        labels=manifest.labels or None,
    )
    export(loaded, path, options, progress=progress)


def _resized(spec: Preprocess, size: tuple[int, int]) -> Preprocess:
    """The same share of the image, in fewer pixels."""
    resize_to = [round(side * new / old) for side, new, old in zip(spec.resize_to, size, spec.size, strict=True)]
    return dataclasses.replace(spec, size=size, resize_to=(resize_to[0], resize_to[1]))


def write_chosen(candidate: Candidate, made: Path, output: Path) -> None:
    """Copy a file, with the candidate's session entries in its manifest."""
    from vit_edge.export.model_file import staging_folder, write_manifest
    from vit_edge.runtime.manifest import read_manifest
    from vit_edge.runtime.onnxfile import read

    with staging_folder(output) as folder:
        staged = folder / output.name
        shutil.copyfile(made, staged)
        manifest = read_manifest(read(staged))
        entries = {**manifest.session, **dict(candidate.entries)}
        write_manifest(staged, dataclasses.replace(manifest, session=entries))
