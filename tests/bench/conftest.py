"""Engines that run nothing: processes that speak the worker's protocol."""

import sys
from collections.abc import Callable

import pytest

from vit_edge.bench import Candidate

# Answers as told: its runs take the milliseconds given.
ENGINE = """
import json, sys, time
print("a library says hello", flush=True)
json.loads(sys.stdin.readline())
print(json.dumps({"load": 0.1, "first": 0.2, "rss": 1000, "precision": PRECISION, "providers": ["Fake"]}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    BEFORE
    print(json.dumps({"seconds": [MS / 1000] * request["runs"], "rss": 2000}), flush=True)
"""
MakeEngine = Callable[..., Candidate]


@pytest.fixture
def engine() -> MakeEngine:
    """Make a candidate of a name, milliseconds a run, a precision, and a statement before each burst."""

    def make(
        name: str, ms: float = 1.0, precision: str = "fp32", before: str = "pass", code: str = ENGINE
    ) -> Candidate:
        code = code.replace("PRECISION", repr(precision)).replace("MS", str(ms)).replace("BEFORE", before)
        return Candidate(f"{name}.onnx", command=(sys.executable, "-c", code))

    return make
