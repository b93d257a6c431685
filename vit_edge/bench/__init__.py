"""How fast model files are on this machine, without being fooled by timings. Needs what the runtime needs.

Example:
    >>> from vit_edge.bench import Candidate, Plan, bench
    >>> bench([Candidate("fp32.onnx"), Candidate("int8.onnx")], Plan()).verdicts  # doctest: +SKIP
    ('int8 is 2.71x as fast as fp32 here (95 % interval 2.62 … 2.80)',)
"""

from vit_edge.bench.bench import Bench, CandidateResult, bench
from vit_edge.bench.candidate import Candidate, parse_candidate
from vit_edge.bench.errors import BenchError
from vit_edge.bench.rounds import Plan

__all__ = ["Bench", "BenchError", "Candidate", "CandidateResult", "Plan", "bench", "parse_candidate"]
