"""The page about an evaluation: one HTML file without scripts, network or other files."""

import json
from collections.abc import Mapping
from importlib import resources

from vit_edge import __version__
from vit_edge.accuracy.evaluation import Evaluation, Flip, ModelFacts
from vit_edge.accuracy.extras import report_package
from vit_edge.accuracy.layers import quantized_layers
from vit_edge.accuracy.plots import LAYERS_SHOWN, damage_plot, interval_plot, range_plot, reliability_plot
from vit_edge.accuracy.summary import agreement_text, paired_text, percent, size
from vit_edge.accuracy.thumbnails import thumbnail

__all__ = ["FLIPS_SHOWN", "render", "require_packages"]

FLIPS_SHOWN = 48
_CLASSES_SHOWN = 12
_VALUE_CHARACTERS = 2000  # of one entry of the provenance


def require_packages() -> None:
    """Import what the page needs.

    Raises:
        ConfigError: A package is missing; one line says what to do.
    """
    for name in ("jinja2", "matplotlib"):
        report_package(name)


def render(found: Evaluation) -> str:
    """The page as HTML. Names of files and classes are escaped: they may hold anything.

    Raises:
        ConfigError: jinja2 or matplotlib is missing.
        InputError: A flipped image cannot be read any more.
    """
    jinja2 = report_package("jinja2")
    folder = resources.files("vit_edge.accuracy") / "templates"
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((folder / "report.html.j2").read_text(encoding="utf-8"))
    trusted = report_package("markupsafe").Markup
    css = trusted((folder / "report.css").read_text(encoding="utf-8"))
    plots = {name: trusted(svg) for name, svg in _plots(found).items()}
    page: str = template.render(css=css, plots=plots, **_content(found))
    return page + "\n"


def _plots(found: Evaluation) -> dict[str, str]:
    plots = {}
    both, accuracy = found.comparison, found.model.accuracy
    if both and both.paired:
        plots["interval"] = interval_plot(both.paired, both.verdict.max_drop if both.verdict else None)
    if accuracy:
        plots["reliability"] = reliability_plot(accuracy, found.baseline.accuracy if found.baseline else None)
    layers, _ = quantized_layers(found.model.manifest)
    if layers:
        plots |= {"damage": damage_plot(layers), "ranges": range_plot(layers)}
    return plots


def _content(found: Evaluation) -> dict[str, object]:
    """What the template shows; texts and numbers only."""
    both = found.comparison
    layers, problem = quantized_layers(found.model.manifest)
    flips = both.flips if both else ()
    lost = [loss for loss in both.classes if loss.baseline_right > loss.model_right] if both else []
    files = [("baseline", found.baseline), ("model", found.model)]
    return {
        "title": found.model.path.name,
        "verdict": both.verdict if both else None,
        "labelled": found.data.labels is not None,
        "images": len(found.data),
        "origin": found.data.origin,
        "folder": str(found.data.folder),
        "columns": [_column(heading, facts) for heading, facts in files if facts],
        "agreement": agreement_text(both) if both else (),
        "paired": paired_text(both) if both and both.paired else (),
        "layers": sorted((layer for layer in layers if layer.mended), key=lambda layer: -layer.damage),
        "layers_problem": problem,
        "layers_total": len(layers),
        "layers_shown": min(LAYERS_SHOWN, len(layers)),
        "flips": [_flip(found, flip) for flip in flips[:FLIPS_SHOWN]],
        "flips_total": len(flips),
        "losers": [(found.class_name(loss.label), loss) for loss in lost[:_CLASSES_SHOWN]],
        "losers_total": len(lost),
        "provenance": [(heading, _provenance(facts)) for heading, facts in files if facts],
        "version": __version__,
        "onnxruntime": report_package("onnxruntime").__version__,
    }


def _column(heading: str, facts: ModelFacts) -> dict[str, str]:
    cells = {"": heading, "file": facts.path.name, "size": size(facts.bytes)}
    cells["precision"] = facts.manifest.model.precision
    found = facts.accuracy
    if found:
        low, high = found.top1_interval
        cells["top-1"] = percent(found.top1)
        cells["95 % interval"] = f"{100 * low:.1f} … {100 * high:.1f}"
        cells["top-5"] = "–" if found.top5 is None else percent(found.top5)
        cells["ECE"] = f"{found.ece:.3f}"
    return cells


def _flip(found: Evaluation, flip: Flip) -> dict[str, object]:
    change = ""
    if flip.label is not None:
        change = "lost" if flip.baseline == flip.label else "gained" if flip.model == flip.label else "both wrong"
    return {
        "picture": thumbnail(found.data.paths[flip.index]),
        "file": found.data.name(flip.index),
        "change": change,
        "label": None if flip.label is None else found.class_name(flip.label),
        "baseline": found.class_name(flip.baseline),
        "baseline_margin": f"{flip.baseline_margin:.2f}",
        "model": found.class_name(flip.model),
        "model_margin": f"{flip.model_margin:.2f}",
    }


def _provenance(facts: ModelFacts) -> list[tuple[str, str]]:
    model, manifest = facts.manifest.model, facts.manifest
    rows: list[tuple[str, object]] = [
        ("name", model.name),
        ("parameters", f"{model.parameters:,}"),
        ("source", f"{model.source_format}, sha256 {model.source_sha256}"),
        ("content", f"sha256 {manifest.content_sha256}"),
        ("kept in float", ", ".join(model.kept_float) or "–"),
        ("preprocessing", manifest.input.preprocess.to_dict()),
    ]
    rows += [("assumed", text) for text in model.assumptions]
    rows += [(key, value) for key, value in sorted(manifest.provenance.items()) if key != "quantization"]
    quantization = manifest.provenance.get("quantization")
    if isinstance(quantization, Mapping):
        rows.append(("quantization", {key: value for key, value in quantization.items() if key != "layers"}))
    return [(key, _shortened(value)) for key, value in rows]


def _shortened(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _VALUE_CHARACTERS else text[:_VALUE_CHARACTERS] + " …"
