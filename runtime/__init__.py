"""What a device needs to run a model file: numpy, onnxruntime and Pillow. Never torch, never onnx.

Example:
    >>> from vit_edge.runtime import Predictor
    >>> Predictor("model.onnx")("cat.jpg").best(3)  # doctest: +SKIP
"""

from vit_edge.runtime.errors import ConfigError, InputError, ModelFileError, ProviderError, VitEdgeError
from vit_edge.runtime.manifest import Manifest
from vit_edge.runtime.prediction import Label, Prediction
from vit_edge.runtime.predictor import Predictor
from vit_edge.runtime.preprocess import Preprocess

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
