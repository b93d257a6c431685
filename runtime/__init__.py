"""What a device needs to run a model file: numpy, onnxruntime and Pillow. Never torch, never onnx.

Example:
    >>> from vit_edge.runtime import Predictor
    >>> Predictor("model.onnx")("cat.jpg").best(3)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from vit_edge.runtime.errors import ConfigError, InputError, ModelFileError, ProviderError, VitEdgeError
from vit_edge.runtime.manifest import Manifest
from vit_edge.runtime.prediction import Label, Prediction
from vit_edge.runtime.preprocess import Preprocess

if TYPE_CHECKING:
    from vit_edge.runtime.predictor import Predictor

__all__ = [
    "ConfigError",
    "InputError",
    "Label",
    "Manifest",
    "ModelFileError",
    "Prediction",
    "Predictor",
    "Preprocess",
    "ProviderError",
    "VitEdgeError",
]


def __getattr__(name: str) -> Any:
    """Import the predictor when it is first asked for: it brings onnxruntime along, which may not even load here."""
    if name != "Predictor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vit_edge.runtime.predictor import Predictor

    globals()["Predictor"] = Predictor
    return Predictor
