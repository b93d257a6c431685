"""What a search has done so far: one JSON file, replaced whole after every piece of work."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vit_edge.accuracy.writing import write_text

__all__ = ["State", "digest", "open_state"]

_SCHEMA = 1


def digest(*parts: str | bytes) -> str:
    """sha256 of texts and bytes, in order; where one ends is part of it."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()


@dataclass(slots=True)
class State:
    """The work that is done; the one thing here that changes.

    Attributes:
        path: the file; None keeps it in memory.
        keys: what the work depends on -> its hash.
        made: names of files that are there -> sha256 of the file, where it is known.
        failed: name of a file or candidate -> why.
        right: name of a file -> `1` or `0` for each image, in their order.
        times: number of the rung -> name of a candidate -> p50 in ms, times as fast as the given model.
    """

    path: Path | None = None
    keys: dict[str, str] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    right: dict[str, str] = field(default_factory=dict)
    times: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)

    def make(self, name: str) -> None:
        """A file is there."""
        self.made.setdefault(name, "")
        self.write()

    def fail(self, name: str, problem: str) -> None:
        """A file or a candidate is out."""
        self.failed[name] = problem
        self.write()

    def score(self, name: str, bits: str) -> None:
        """More images are answered."""
        self.right[name] = self.right.get(name, "") + bits
        self.write()

    def time(self, rung: int, found: Mapping[str, tuple[float, float]]) -> None:
        """Candidates are timed; those timed before keep their figures."""
        self.times[str(rung)] = {**found, **self.times.get(str(rung), {})}
        self.write()

    def timing(self, rung: int, name: str) -> tuple[float, float] | None:
        """Of a candidate."""
        return self.times.get(str(rung), {}).get(name)

    def bits(self, name: str, images: int) -> npt.NDArray[np.bool_] | None:
        """(images,) bool of the first images; None where not all of them are answered."""
        text = self.right.get(name, "")
        return np.array([each == "1" for each in text[:images]]) if len(text) >= images else None

    def write(self) -> None:
        """Replace the file."""
        if self.path is None:
            return
        names = ("keys", "made", "failed", "right", "times")
        record = {"schema_version": _SCHEMA, **{name: getattr(self, name) for name in names}}
        write_text(self.path, json.dumps(record, indent=1) + "\n")


def open_state(path: Path, keys: Mapping[str, str]) -> tuple[State, str]:
    """Go on with an earlier search, or begin.

    Args:
        path: of the file, which may be absent.
        keys: what the work depends on -> its hash.

    Returns:
        The state, and a sentence about it: empty where there was no file.
    """
    fresh = State(path, dict(keys))
    if not path.is_file():
        return fresh, ""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if record.pop("schema_version") != _SCHEMA:
            return fresh, f"{path.name} is of another version: the search begins anew"
        times = {rung: {name: (float(p50), float(speed)) for name, (p50, speed) in each.items()}
                 for rung, each in record.pop("times").items()}  # fmt: skip
        old = State(path, times=times, **record)
        changed = sorted({key for key in {*old.keys, *keys} if old.keys.get(key) != keys.get(key)})
    except (ValueError, TypeError, KeyError, AttributeError):
        return fresh, f"{path.name} cannot be read: the search begins anew"
    if changed:
        verb = "has" if len(changed) == 1 else "have"
        return fresh, f"the {' and the '.join(changed)} {verb} changed: the search begins anew"
    return old, f"{path.name}: goes on where an earlier search stopped"
