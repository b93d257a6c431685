"""One small checkpoint, its trace and the file exported from it; and what every test of a pass needs."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
import torch

from vit_edge.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from vit_edge.config import ViTConfig
from vit_edge.export import ExportReport, export, exporter
from vit_edge.export.parity import Reference, reference
from vit_edge.export.pipeline import PREPARE, run_passes
from vit_edge.export.traceable import traceable
from vit_edge.export.tracing import trace
from vit_edge.model import ViT
from vit_edge.preprocessing import named
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.preprocess import normalise
from vit_edge.runtime.session import open_session

Feeds = Mapping[str, npt.NDArray[np.float32]]
RunGraph = Callable[..., list[npt.NDArray[np.float32]]]
SIZE = (24, 16)  # 3 x 2 patches: neither square nor even
CONFIG = ViTConfig(image_size=SIZE, patch_size=(8, 8), width=32, depth=2, heads=2, mlp_width=48, classes=5)
LABELS = ("ant", "bee", "cat", "dog", "eel")


def lively(config: ViTConfig, seed: int = 0) -> ViT:
    """A random model whose outputs vary with the image."""
    torch.manual_seed(seed)
    model = ViT(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a native checkpoint of a random model; `changes` are fields of its config."""

    def make(seed: int = 0, preprocess: str = "imagenet", **changes: object) -> Path:
        config = ViTConfig.from_dict({**CONFIG.to_dict(), **changes})
        path = tmp_path_factory.mktemp("checkpoint") / "small.safetensors"
        labels = LABELS if config.classes == len(LABELS) else ()
        spec = named(preprocess, config.image_size, config.channels)
        save_checkpoint(lively(config, seed), path, name="small", preprocess=spec, labels=labels)
        return path

    return make


@pytest.fixture(scope="session")
def checkpoint_file(make_checkpoint: Callable[..., Path]) -> Path:
    return make_checkpoint()


@pytest.fixture(scope="session")
def checkpoint(checkpoint_file: Path) -> Checkpoint:
    return load_checkpoint(checkpoint_file)


@pytest.fixture(scope="session")
def ref(checkpoint: Checkpoint) -> Reference:
    """Seven images and what the model says to them."""
    assert checkpoint.preprocess is not None
    made = reference(checkpoint.model, normalise(golden_images(7, *SIZE, 3), checkpoint.preprocess))
    assert made.single.std(axis=0).min() > 0.05, "outputs that hardly vary would prove nothing"
    return made


@pytest.fixture(scope="session")
def report(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> ExportReport:
    """The one export at the default opset; its file must not be changed."""
    return export(checkpoint, tmp_path_factory.mktemp("exported") / "small.onnx")


@pytest.fixture(scope="session")
def _traced(checkpoint: Checkpoint) -> ir.Model:
    return trace(traceable(checkpoint.model, opset=23), (3, *SIZE), opset=23)


@pytest.fixture
def traced(_traced: ir.Model) -> ir.Model:
    """A copy of the small model's traced graph, with names."""
    return run_passes(_traced.clone(), PREPARE)[0]


@pytest.fixture
def quick(_traced: ir.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports of the small model take its graph from memory: tracing is most of their time."""
    monkeypatch.setattr(exporter, "trace", lambda *arguments, **options: _traced.clone())


@pytest.fixture(scope="session")
def run_graph() -> RunGraph:
    """Run a graph as it is written, unoptimised, after onnx's checker has accepted it."""

    def run(model: ir.Model, feeds: Feeds) -> list[npt.NDArray[np.float32]]:
        proto = ir.to_proto(model)
        proto.ir_version = 10
        onnx.checker.check_model(proto, full_check=True)
        session = open_session(proto.SerializeToString(), optimization="none")
        return list(session.run(None, dict(feeds)))

    return run


@pytest.fixture(scope="session")
def assert_same(run_graph: RunGraph) -> Callable[[ir.Model, ir.Model, Feeds], None]:
    """Two graphs give equal outputs, which are not all the same number."""

    def check(before: ir.Model, after: ir.Model, feeds: Feeds) -> None:
        for expected, got in zip(run_graph(before, feeds), run_graph(after, feeds), strict=True):
            assert expected.size == 1 or expected.std() > 0
            torch.testing.assert_close(torch.from_numpy(got), torch.from_numpy(expected))

    return check


@pytest.fixture(scope="session")
def feeds() -> Feeds:
    """(4, 3) float32 for the graphs written as text."""
    return {"x": np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32)}
