"""How accurate a model file is, how much it lost against another one, and whether that is proved.

Needs what the runtime needs, and no torch; the HTML page needs matplotlib and jinja2.

Example:
    >>> from vit_edge.accuracy import evaluate
    >>> evaluate("int8.onnx", "val", baseline="fp32.onnx", max_drop=0.5).comparison.verdict  # doctest: +SKIP
"""

from vit_edge.accuracy.dataset import Dataset, read_dataset
from vit_edge.accuracy.errors import DataError, MisalignedError
from vit_edge.accuracy.evaluation import Comparison, Evaluation, Flip, ModelFacts, compare, evaluate
from vit_edge.accuracy.metrics import Accuracy, Agreement, ClassLoss
from vit_edge.accuracy.paired import Paired, Verdict, images_needed, judge, pair
from vit_edge.accuracy.scoring import ScoreOptions, open_model, score

__all__ = [
    "Accuracy",
    "Agreement",
    "ClassLoss",
    "Comparison",
    "DataError",
    "Dataset",
    "Evaluation",
    "Flip",
    "MisalignedError",
    "ModelFacts",
    "Paired",
    "ScoreOptions",
    "Verdict",
    "compare",
    "evaluate",
    "images_needed",
    "judge",
    "open_model",
    "pair",
    "read_dataset",
    "score",
]
