"""`vit-edge inspect`: what a model file is. Needs no torch and no onnx."""

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import click

from vit_edge.cli.console import human_bytes, say
from vit_edge.runtime.text import to_json

if TYPE_CHECKING:
    from vit_edge.runtime.manifest import Manifest
    from vit_edge.runtime.onnxfile import OnnxFile, ValueInfo

__all__ = ["inspect"]


@click.command(short_help="What a model file is.")
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Everything, the whole manifest too, as JSON.")
def inspect(model: str, as_json: bool) -> None:
    """Show shapes, preprocessing, labels, operators, sizes and provenance of MODEL, read from the file itself."""
    from vit_edge.runtime import onnxfile
    from vit_edge.runtime.manifest import read_manifest

    file = onnxfile.read(model)
    manifest = read_manifest(file)
    if as_json:
        click.echo(to_json(_record(file, manifest), indent=2))
    else:
        for name, value in _rows(file, manifest):
            say(f"{name:<13}{value}")


def _record(file: "OnnxFile", manifest: "Manifest") -> dict[str, Any]:
    """The stable JSON form: the file as read, and the manifest as stored."""
    return {
        "file": str(file.path),
        "bytes": file.nbytes,
        "content_sha256": file.content_sha256,
        "content_matches_manifest": file.content_sha256 == manifest.content_sha256,
        "manifest_matches_its_hash": manifest.seal() == manifest.manifest_sha256,
        "ir_version": file.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in file.opsets.items()},
        "inputs": [dataclasses.asdict(value) for value in file.inputs],
        "outputs": [dataclasses.asdict(value) for value in file.outputs],
        "operators": dict(file.op_counts),
        "weights": {"count": len(file.weights), "bytes": sum(weight.nbytes for weight in file.weights)},
        "external": list(file.external),
        "manifest": json.loads(manifest.to_json()),
    }


def _rows(file: "OnnxFile", manifest: "Manifest") -> list[tuple[str, str]]:
    from vit_edge.preprocessing import describe

    model, provenance = manifest.model, manifest.provenance
    weights = sum(weight.nbytes for weight in file.weights)
    same = file.content_sha256 == manifest.content_sha256 and manifest.seal() == manifest.manifest_sha256
    rows = [
        ("file", f"{file.path}, {human_bytes(file.nbytes)}" + "".join(f" + {name}" for name in file.external)),
        ("model", f"{model.name}, {model.parameters:,} parameters, {model.precision}"),
        ("source", f"{_source(model.source_format)}, sha256 {model.source_sha256[:12]}"),
        ("input", ", ".join(map(_shape, file.inputs))),
        ("preprocess", describe(manifest.input.preprocess)),
        ("", f"from {provenance.get('preprocess_origin', 'unknown')}"),
        ("output", f"{', '.join(map(_shape, file.outputs))}: {manifest.output.kind}"),
        ("labels", _labels(manifest.labels)),
        ("weights", f"{len(file.weights)} tensors, {human_bytes(weights)}"),
        ("operators", _operators(file)),
        ("opset", f"{', '.join(_opset(*item) for item in file.opsets.items())}; IR {file.ir_version}"),
        ("runs on", f"onnxruntime {manifest.minimum_runtime} or newer"),
        ("content", f"sha256 {file.content_sha256[:12]}, " + ("as exported" if same else "CHANGED since the export")),
        ("made by", f"vit-edge {provenance.get('vit_edge', '?')}, {_libraries(provenance)}"),
    ]
    return rows + [("assumed", assumption) for assumption in model.assumptions]


def _source(format_: str) -> str:
    return "adopted .onnx" if format_ == "onnx" else f"{format_} checkpoint"


def _shape(value: "ValueInfo") -> str:
    return f"{value.name} {value.dtype} ({', '.join(map(str, value.shape))})"


def _opset(domain: str, version: int) -> str:
    return f"{domain or 'ai.onnx'} {version}"


def _labels(labels: tuple[str, ...]) -> str:
    if not labels:
        return "none: classes are numbers"
    return f"{len(labels)}: {', '.join(labels[:3])}{', ...' if len(labels) > 3 else ''}"


def _operators(file: "OnnxFile") -> str:
    total = sum(file.op_counts.values())
    most = ", ".join(f"{count} {name}" for name, count in list(file.op_counts.items())[:6])
    return f"{total} nodes: {most}{', ...' if len(file.op_counts) > 6 else ''}"


def _libraries(provenance: Any) -> str:
    libraries = provenance.get("libraries")
    if not isinstance(libraries, dict):
        return "unknown libraries"
    return ", ".join(f"{name} {libraries[name]}" for name in ("torch", "onnx", "onnxruntime") if name in libraries)
