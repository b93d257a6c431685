"""The stable JSON form of an evaluation: docs/accuracy.md describes every field.

`schema_version` rises when a field changes its meaning or goes; new fields may come without.
"""

import dataclasses
import json
from collections.abc import Mapping

from vit_edge.accuracy.evaluation import Comparison, Evaluation, Flip, ModelFacts
from vit_edge.accuracy.paired import CONFIDENCE

__all__ = ["SCHEMA_VERSION", "record", "to_json"]

SCHEMA_VERSION = 1


def to_json(found: Evaluation) -> str:
    """The record as a text that ends in a newline."""
    return json.dumps(record(found), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def record(found: Evaluation) -> dict[str, object]:
    """The record as JSON values."""
    both = found.comparison
    return {
        "schema_version": SCHEMA_VERSION,
        "data": {
            "folder": str(found.data.folder),
            "images": len(found.data),
            "labelled": found.data.labels is not None,
            "labels_from": found.data.origin,
        },
        "confidence": CONFIDENCE,
        "model": _model(found.model),
        "baseline": _model(found.baseline) if found.baseline else None,
        "agreement": dataclasses.asdict(both.agreement) if both else None,
        "paired": dataclasses.asdict(both.paired) if both and both.paired else None,
        "verdict": dataclasses.asdict(both.verdict) if both and both.verdict else None,
        "classes": _classes(found, both),
        "flips": [_flip(found, flip) for flip in both.flips] if both else [],
    }


def _model(facts: ModelFacts) -> Mapping[str, object]:
    manifest = facts.manifest
    return {
        "file": str(facts.path),
        "bytes": facts.bytes,
        "content_sha256": manifest.content_sha256,
        "name": manifest.model.name,
        "precision": manifest.model.precision,
        "kept_float": list(manifest.model.kept_float),
        "accuracy": dataclasses.asdict(facts.accuracy) if facts.accuracy else None,
    }


def _classes(found: Evaluation, both: Comparison | None) -> list[Mapping[str, object]]:
    losses = both.classes if both else ()
    return [{**dataclasses.asdict(loss), "name": found.class_name(loss.label)} for loss in losses]


def _flip(found: Evaluation, flip: Flip) -> Mapping[str, object]:
    values = dataclasses.asdict(flip)
    del values["index"]
    return {"file": found.data.name(flip.index), **values}
