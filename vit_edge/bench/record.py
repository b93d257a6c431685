"""A measurement as JSON."""

import dataclasses

from vit_edge import __version__
from vit_edge.bench.bench import Bench
from vit_edge.runtime import text

__all__ = ["SCHEMA_VERSION", "to_json"]

SCHEMA_VERSION = 1


def to_json(found: Bench) -> str:
    """All that `Bench` has, under the names of its fields, with `schema_version` and `vit_edge` in front."""
    head = {"schema_version": SCHEMA_VERSION, "vit_edge": __version__}
    candidates = [
        {**dataclasses.asdict(each), "outcome": each.ratio.outcome if each.ratio else None} for each in found.candidates
    ]
    record = {**head, **dataclasses.asdict(found), "candidates": candidates}
    return text.to_json(record, indent=2) + "\n"
