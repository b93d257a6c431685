"""`pareto.json`: the front, the pick, and all that was left behind."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vit_edge import __version__
from vit_edge.tune.front import Point
from vit_edge.tune.halving import Found
from vit_edge.tune.pick import Pick

__all__ = ["SCHEMA_VERSION", "to_json"]

SCHEMA_VERSION = 1


def to_json(found: Found, front: Sequence[Point], chosen: Pick | None, files: Mapping[str, str], about: Any) -> str:
    """The record; docs/tune.md lists its fields.

    Args:
        found: of `halve`.
        front: fastest first.
        chosen: None where nothing is within the budget.
        files: name of a point of the front -> its file in the folder.
        about: what was asked and where: a JSON object.
    """
    record = {
        "schema_version": SCHEMA_VERSION,
        "vit_edge": __version__,
        **about,
        "pick": {"name": chosen.point.candidate.name, "reason": chosen.reason} if chosen else None,
        "front": [{**_point(each), "file": files.get(each.candidate.name)} for each in front],
        "beaten": [_point(each) for each in found.points if each not in front],
        "dropped": [_point(each) for each in found.dropped],
        "failed": found.failed,
        "untried": list(found.untried),
    }
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def _point(point: Point) -> dict[str, object]:
    return {
        "name": point.candidate.name,
        "precision": point.candidate.variant.precision,
        "size": point.candidate.variant.size,
        "session": dict(point.candidate.entries),
        "accuracy": point.accuracy,
        "accuracy_interval": point.interval,
        "drop": point.paired.drop,
        "drop_interval": point.paired.interval,
        "p50_ms": point.p50,
        "speed": point.speed,
        "images": point.images,
        "rounds": point.rounds,
    }
