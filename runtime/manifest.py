"""The manifest: what a model file says about itself, stored as JSON in the ONNX metadata.

Decoding is strict (see `strictjson`), because a manifest decides what is computed. It follows the annotations
of the dataclasses below, so these are the reference of the format. All that is wrong raises ModelFileError.
"""

import dataclasses
import hashlib
import math
import re
from collections.abc import Mapping
from typing import Literal

from vit_edge.runtime import strictjson
from vit_edge.runtime.errors import ConfigError, ModelFileError
from vit_edge.runtime.onnxfile import OnnxFile
from vit_edge.runtime.preprocess import Preprocess

__all__ = [
    "METADATA_KEY",
    "SCHEMA_VERSION",
    "ExternalData",
    "Golden",
    "InputInfo",
    "Manifest",
    "ModelInfo",
    "OutputInfo",
    "read_manifest",
]

METADATA_KEY = "vit_edge"
SCHEMA_VERSION = 1
_MAX_CHARACTERS = 64 << 20


def _require(good: bool, problem: str) -> None:
    if not good:
        raise ModelFileError(f"manifest: {problem}")


def _require_sha256(text: str, name: str) -> None:
    _require(re.fullmatch("[0-9a-f]{64}", text) is not None, f"{name} is {text[:80]!r}, not 64 hexadecimal digits")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """Which model it is and where it came from."""

    name: str
    architecture: Mapping[str, object]  # the ViT's configuration, as JSON
    parameters: int
    source_sha256: str  # of the checkpoint
    source_format: str
    precision: str = "fp32"
    kept_float: tuple[str, ...] = ()  # layers that a quantized model computes in float
    assumptions: tuple[str, ...] = ()  # what the checkpoint did not say, in words

    def __post_init__(self) -> None:
        _require(self.parameters >= 0, f"model.parameters is {self.parameters}")
        _require_sha256(self.source_sha256, "model.source_sha256")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InputInfo:
    """What the graph takes: `float` is (N, C, H, W) float32, normalised as `preprocess` says."""

    name: str
    mode: Literal["float", "uint8", "image"]
    preprocess: Preprocess


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OutputInfo:
    """What the graph gives: (N, classes) float32. Features, tokens and maps are flattened to that.

    `shape` is that of one image's output: (height, width) of a map, otherwise it may be empty.
    """

    name: str
    kind: Literal["logits", "probabilities", "features", "tokens", "map"]
    classes: int
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _require(self.classes >= 1, f"output.classes is {self.classes}")
        fits = all(side >= 1 for side in self.shape) and math.prod(self.shape) == self.classes
        _require(fits or not self.shape, f"output.shape is {self.shape} for {self.classes} values")
        _require(self.kind != "map" or len(self.shape) == 2, f"output.shape is {self.shape}, not that of a map")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """The outputs that the synthetic images of `golden.golden_images` must give, each run on its own."""

    set_id: str
    count: int
    outputs: tuple[tuple[float, ...], ...]  # (count, classes)
    tolerance: float  # of max|difference| relative to max|expected|, an image

    def __post_init__(self) -> None:
        _require(self.count >= 1, f"golden.count is {self.count}")
        _require(len(self.outputs) == self.count, f"{len(self.outputs)} golden outputs for {self.count} images")
        _require(0 < self.tolerance < 1, f"golden.tolerance is {self.tolerance}, not between 0 and 1")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExternalData:
    """The file beside the model that holds weights, where the model has 2 GB or more."""

    file: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        plain = re.fullmatch(r"[^/\\:\0]+", self.file) is not None and self.file not in (".", "..")
        _require(plain, f"external_data.file is {self.file[:200]!r}, not a plain file name")
        _require(self.bytes >= 0, f"external_data.bytes is {self.bytes}")
        _require_sha256(self.sha256, "external_data.sha256")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All that a model file says about itself."""

    model: ModelInfo
    input: InputInfo
    output: OutputInfo
    labels: tuple[str, ...]  # one a class, or none at all
    golden: Golden
    provenance: Mapping[str, object]  # tools, versions, passes and measured numbers, as JSON
    minimum_runtime: str  # the oldest onnxruntime that can run the graph, like "1.23"
    session: Mapping[str, str]  # session configuration entries that the file asks for
    content_sha256: str  # of graph and weights: `onnxfile.content_sha256`
    external_data: ExternalData | None = None
    batch_dependent: bool = False  # an answer depends on what else is in its batch: scales are found while it runs
    manifest_sha256: str = ""  # of all the rest of the manifest: `seal`
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        classes = self.output.classes
        _require(len(self.labels) in (0, classes), f"{len(self.labels)} labels for {classes} classes")
        for output in self.golden.outputs:
            _require(len(output) == classes, f"a golden output has {len(output)} values for {classes} classes")
        version = re.fullmatch(r"\d{1,9}(\.\d{1,9}){0,3}", self.minimum_runtime)
        _require(version is not None, f"minimum_runtime is {self.minimum_runtime!r}, not a version like '1.23'")
        _require_sha256(self.content_sha256, "content_sha256")
        _require(self.schema_version == SCHEMA_VERSION, f"schema_version is {self.schema_version}")

    def seal(self) -> str:
        """The sha256 that `manifest_sha256` must have, over the JSON with that field empty."""
        return hashlib.sha256(dataclasses.replace(self, manifest_sha256="").to_json().encode()).hexdigest()

    def sealed(self) -> "Manifest":
        """The same with its own hash in it, as it is written into a file."""
        return dataclasses.replace(self, manifest_sha256=self.seal())

    def to_json(self) -> str:
        """The canonical JSON: equal manifests give equal text."""
        try:
            text = strictjson.dumps(self)
        except strictjson.JsonError as error:
            raise ModelFileError(f"manifest: {error}") from None
        _require(len(text) <= _MAX_CHARACTERS, f"it has {len(text):,} characters, {_MAX_CHARACTERS:,} are allowed")
        return text

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """The manifest in a JSON text.

        Raises:
            ModelFileError: The text is not exactly a manifest, or a newer vit-edge wrote it.
        """
        try:
            value = strictjson.loads(text, max_characters=_MAX_CHARACTERS)
            version = value.get("schema_version") if isinstance(value, dict) else None
            if type(version) is int and version > SCHEMA_VERSION:
                raise ModelFileError(
                    f"written by a newer vit-edge: the manifest has schema {version}, "
                    f"this one reads {SCHEMA_VERSION}: pip install -U vit-edge"
                )
            return strictjson.decode(cls, value)
        except (strictjson.JsonError, ConfigError) as error:
            raise ModelFileError(f"manifest: {error}") from None


def read_manifest(file: OnnxFile) -> Manifest:
    """The manifest of a model file.

    Raises:
        ModelFileError: The file has no manifest, or one that cannot be used.
    """
    text = file.metadata.get(METADATA_KEY)
    if text is None:
        raise ModelFileError(
            f"{file.path} is a plain ONNX file without a vit-edge manifest: "
            "`vit-edge adopt` makes a model file of it, with preprocessing, labels and golden outputs"
        )
    try:
        return Manifest.from_json(text)
    except ModelFileError as error:
        raise ModelFileError(f"{file.path}: {error}") from None
