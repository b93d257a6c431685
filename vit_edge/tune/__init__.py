"""Which precision, resolution and session settings suit a model on this machine.

Example:
    >>> from vit_edge.tune import Wish, tune
    >>> tune(Path("fp32.onnx"), Path("val"), Path("tuned"), Wish(max_drop=1.0)).pick.reason  # doctest: +SKIP
"""

from vit_edge.tune.errors import TuneError
from vit_edge.tune.front import Point, front
from vit_edge.tune.pick import Pick, pick
from vit_edge.tune.tune import Tuned, Wish, tune

__all__ = ["Pick", "Point", "TuneError", "Tuned", "Wish", "front", "pick", "tune"]
