"""Tiny model files: a linear classifier on 3 x 8 x 8 images, with a manifest that fits it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper

from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.manifest import METADATA_KEY, Golden, InputInfo, Manifest, ModelInfo, OutputInfo
from vit_edge.runtime.onnxfile import content_sha256
from vit_edge.runtime.preprocess import Preprocess, normalise

CLASSES = 5
GOLDEN_COUNT = 3


@dataclass(frozen=True)
class Tiny:
    """A model and all that is needed to write variations of its file."""

    proto: onnx.ModelProto
    weight: npt.NDArray[np.float32]  # (192, classes)
    bias: npt.NDArray[np.float32]  # (classes,)
    manifest: Manifest

    def expected(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The logits by numpy, of (N, 3, 8, 8) float32."""
        return x.reshape(len(x), -1) @ self.weight + self.bias

    def bytes(self, manifest: Manifest | None = None) -> bytes:
        """The whole file, with this or another manifest."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        helper.set_model_props(proto, {METADATA_KEY: (manifest or self.manifest).sealed().to_json()})
        return proto.SerializeToString(deterministic=True)


def _proto(weight: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]) -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["x"], ["flat"]),
            helper.make_node("MatMul", ["flat", "weight"], ["product"]),
            helper.make_node("Add", ["product", "bias"], ["logits"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(bias, "bias")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    rng = np.random.default_rng(7)
    weight = rng.standard_normal((192, CLASSES)).astype(np.float32)
    bias = rng.standard_normal(CLASSES).astype(np.float32)
    proto = _proto(weight, bias)
    spec = Preprocess(
        size=(8, 8),
        resize="exact",
        resize_to=(8, 8),
        interpolation="bilinear",
        fill=(0, 0, 0),
        mean=(0.5, 0.4, 0.3),
        std=(0.2, 0.25, 0.3),
    )
    images = normalise(golden_images(GOLDEN_COUNT, 8, 8, 3), spec)
    golden = images.reshape(GOLDEN_COUNT, -1) @ weight + bias
    assert golden.std(axis=0).min() > 1, "golden outputs that hardly vary would prove nothing"
    manifest = Manifest(
        model=ModelInfo(
            name="tiny",
            architecture={"width": 192, "notes": [1, 2.5, None, True, "é"]},
            parameters=weight.size + bias.size,
            source_sha256="0" * 64,
            source_format="test",
        ),
        input=InputInfo(name="x", mode="float", preprocess=spec),
        output=OutputInfo(name="logits", kind="logits", classes=CLASSES),
        labels=("ant", "bee", "cat", "dog", "Élan"),
        golden=Golden(
            set_id="golden-1",
            count=GOLDEN_COUNT,
            outputs=tuple(tuple(row) for row in golden.tolist()),
            tolerance=2e-5,
        ),
        provenance={"vit-edge": "0.1.0"},
        minimum_runtime="1.20",
        session={"session.dynamic_block_base": "4"},
        content_sha256=content_sha256(proto.SerializeToString(deterministic=True)),
    ).sealed()
    return Tiny(proto, weight, bias, manifest)


WriteModel = Callable[..., Path]


@pytest.fixture
def write_model(tiny: Tiny, tmp_path: Path) -> WriteModel:
    """Write the tiny model's file, with fields of its manifest replaced."""

    def write(name: str = "tiny.onnx", **changes: object) -> Path:
        path = tmp_path / name
        path.write_bytes(tiny.bytes(replace(tiny.manifest, **changes)))  # type: ignore[arg-type]
        return path

    return write
