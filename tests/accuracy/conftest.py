"""Tiny classifiers of colours, as model files, and data sets of coloured images that they get right."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper
from PIL import Image

from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.manifest import METADATA_KEY, Golden, InputInfo, Manifest, ModelInfo, OutputInfo
from vit_edge.runtime.onnxfile import content_sha256
from vit_edge.runtime.preprocess import Preprocess, normalise

NAMES = ("red", "green", "blue", "cyan", "magenta", "yellow")
CLASSES = len(NAMES)
COLOURS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0]], np.float32)
SIDE = 8

SPEC = Preprocess(
    size=(SIDE, SIDE),
    resize="exact",
    resize_to=(SIDE, SIDE),
    interpolation="bilinear",
    fill=(0, 0, 0),
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
)


def weights() -> npt.NDArray[np.float32]:
    """(192, 6) float32: a class's output is the mean of its colour's channels, signed, times 4."""
    channel = np.repeat(np.eye(3, dtype=np.float32), SIDE * SIDE, axis=0)  # (192, 3)
    signed = (2 * COLOURS - 1).T / (SIDE * SIDE)
    return (4 * channel @ signed).astype(np.float32)


WriteModel = Callable[..., Path]


@pytest.fixture
def write_model(tmp_path: Path) -> WriteModel:
    """Write a model file; `weight` (192, 6) float32 or fields of its manifest may be others."""

    def write(name: str = "model.onnx", weight: npt.NDArray[np.float32] | None = None, **changes: object) -> Path:
        weight = weights() if weight is None else weight
        graph = helper.make_graph(
            [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("MatMul", ["flat", "weight"], ["logits"])],
            "colours",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
            [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", CLASSES])],
            [numpy_helper.from_array(weight, "weight")],
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        manifest = replace(_manifest(proto, weight), **changes)  # type: ignore[arg-type]
        helper.set_model_props(proto, {METADATA_KEY: manifest.sealed().to_json()})
        path = tmp_path / name
        path.write_bytes(proto.SerializeToString(deterministic=True))
        return path

    return write


def _manifest(proto: onnx.ModelProto, weight: npt.NDArray[np.float32]) -> Manifest:
    golden = normalise(golden_images(3, SIDE, SIDE, 3), SPEC).reshape(3, -1) @ weight
    return Manifest(
        model=ModelInfo(name="colours", architecture={}, parameters=0, source_sha256="0" * 64, source_format="test"),
        input=InputInfo(name="x", mode="float", preprocess=SPEC),
        output=OutputInfo(name="logits", kind="logits", classes=CLASSES),
        labels=NAMES,
        golden=Golden(set_id="golden-1", count=3, outputs=tuple(map(tuple, golden.tolist())), tolerance=2e-5),
        provenance={},
        minimum_runtime="1.20",
        session={},
        content_sha256=content_sha256(proto.SerializeToString(deterministic=True)),
    )


def draw(path: Path, label: int, seed: int = 0) -> None:
    """One image of a class's colour, with noise."""
    noise = np.random.default_rng(seed).integers(-40, 41, (SIDE, SIDE, 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(60 + 140 * COLOURS[label] + noise, 0, 255).astype(np.uint8)).save(path)


@pytest.fixture
def write_data(tmp_path: Path) -> Callable[..., Path]:
    """Write `count` images with labels.csv; the labels written are `labels`, by default the true ones."""

    def write(count: int = 60, labels: Sequence[object] | None = None, name: str = "data") -> Path:
        folder = tmp_path / name
        rows = ["file,label"]
        for i in range(count):
            draw(folder / "images" / f"{i:03}.png", i % CLASSES, seed=i)
            rows.append(f"{i:03}.png,{i % CLASSES if labels is None else labels[i]}")
        (folder / "labels.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        return folder

    return write


@pytest.fixture
def worse() -> npt.NDArray[np.float32]:
    """The weights of a model that takes yellow for red: a sixth of all images lost."""
    weight = weights().copy()
    weight[:, 0] *= 1.3
    weight[:, 5] = 0.9 * weight[:, 0]
    return weight
