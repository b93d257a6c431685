"""Check a finished model file against the checkpoint it came from."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.checkpoints import Checkpoint
from vit_edge.export.divergence import first_divergence
from vit_edge.export.errors import ParityError
from vit_edge.export.parity import BATCHES, check_parity, reference
from vit_edge.outputs import giving
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.images import decode
from vit_edge.runtime.manifest import Manifest
from vit_edge.runtime.preprocess import normalise, prepare
from vit_edge.runtime.selftest import Finding

__all__ = ["verify"]

_SHOWN = 6  # names in one line


def verify(
    path: Path,
    manifest: Manifest,
    checkpoint: Checkpoint,
    images: Sequence[Path] = (),
    *,
    progress: Callable[[str], None] = lambda step: None,
) -> list[Finding]:
    """Compare a file with its checkpoint: weights one by one, outputs, and every named tensor.

    Args:
        path: the model file.
        manifest: the file's own.
        checkpoint: loaded with the architecture the manifest names.
        images: real images for the comparison of outputs; golden ones otherwise.
        progress: called with the name of each step as it begins.

    Returns:
        The findings; none is raised, so that all of them can be shown. Where the architecture differs, nothing else
        is compared.
    """
    spec = manifest.input.preprocess
    real = [prepare(decode(image), spec) for image in images[: max(BATCHES)]]
    synthetic = normalise(golden_images(max(BATCHES) - len(real), *spec.size, spec.channels), spec)
    inputs = np.concatenate([np.stack(real), synthetic]) if real else synthetic
    kind = manifest.output.kind
    if kind == "map":
        raise ConfigError(f"{path}: was adopted from an ONNX file, there is no checkpoint to compare it with")
    checkpoint = dataclasses.replace(checkpoint, model=giving(checkpoint.model, kind))
    findings = [_architecture(manifest, checkpoint), _source(manifest, checkpoint)]
    if not findings[0].passed:  # its weights and tensors are others: comparing them would say nothing, or fail
        return findings
    progress("weights")
    findings.append(_weights(path, checkpoint))
    progress("outputs")
    findings.append(_outputs(path, manifest, checkpoint, inputs))
    progress("named tensors")
    first = first_divergence(path, checkpoint.model, inputs[:1])
    detail = f"first diverging tensor: {first}" if first else "no named tensor differs"
    findings.append(Finding("tensors", first is None, detail))
    return findings


def _architecture(manifest: Manifest, checkpoint: Checkpoint) -> Finding:
    got, expected = manifest.model.architecture, checkpoint.model.config.to_dict()
    differing = [
        f"{key} {got.get(key)} in the file, {value} here" for key, value in expected.items() if got.get(key) != value
    ]
    return Finding("architecture", not differing, "; ".join(differing) or "equal")


def _source(manifest: Manifest, checkpoint: Checkpoint) -> Finding:
    same = manifest.model.source_sha256 == checkpoint.sha256
    other = f"exported from {manifest.model.source_sha256[:12]}, got {checkpoint.sha256[:12]}"
    return Finding("checkpoint", same, f"sha256 {checkpoint.sha256[:12]}" if same else other)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _weights(path: Path, checkpoint: Checkpoint) -> Finding:
    """Every initializer with a parameter's name, or with `.T` behind it, has exactly that parameter's values."""
    state = {**checkpoint.model.state_dict(), **dict(checkpoint.model.named_buffers())}  # computed positions as well
    equal, differing = set(), []
    for name, value in ir.load(path).graph.initializers.items():
        parameter = state.get(name.removesuffix(".T"))
        if parameter is None or value.const_value is None:
            continue
        expected = parameter.numpy().T if name.endswith(".T") else parameter.numpy()
        if np.array_equal(value.const_value.numpy(), expected):
            equal.add(name.removesuffix(".T"))
        else:
            differing.append(name.removesuffix(".T"))
    if differing:
        return Finding("weights", False, f"differ from the checkpoint: {_some(differing)}")
    folded = [name for name in checkpoint.model.state_dict() if name not in equal]  # additions of zero, equal weights
    detail = f"{len(equal)} tensors equal" + (f", folded into others: {_some(folded)}" if folded else "")
    return Finding("weights", bool(equal), detail)


def _outputs(path: Path, manifest: Manifest, checkpoint: Checkpoint, inputs: npt.NDArray[np.float32]) -> Finding:
    ref = reference(checkpoint.model, inputs, probabilities=manifest.output.kind == "probabilities")
    try:
        return Finding("outputs", True, str(check_parity(path, ref, "file")))
    except ParityError as error:
        return Finding("outputs", False, str(error))
